"""stub"""


def to_markdown(summary): ...
