"""Quality at equal fairness: test accuracy of everybody who reaches the same p%-rule on the training decisions."""

import multiprocessing
import warnings

import numpy as np
import peers
from findings import seconds, times
from harness import Budget, apart, interleaved, log, median, shortly
from people import load, split

from fairmargin import FairLinearSVC, FairLogisticRegression, FairSVC, PRuleBound

TITLE = "Quality at equal fairness, and the p%-rule as a target"
BUDGET = (680, 24)

CASES = {  # data, attributes, levels
    "Adult, sex": ("Adult", ("sex",), (80, 90, 95, 99)),
    "Bank, age": ("Bank", ("age_group",), (80, 90, 95, 99)),
    "COMPAS, race": ("COMPAS", ("race",), (80, 90, 95)),
    "Adult, race": ("Adult", ("race",), (80, 90, 95)),
    "Adult, sex and race": ("Adult", ("sex", "race"), (80, 90)),
}
CLAIMED_CASES = ("Adult, sex", "Bank, age", "Adult, race", "Adult, sex and race")
LEVELS_SHOWN = {"Adult, race": (80, 90)}
OURS, HINGE, EG, GRID = "**PRuleBound, logistic**", "**PRuleBound, hinge**", "fairlearn EG", "fairlearn GridSearch"
NEEDS_Z = " [needs z to decide]"
SPLITS = 5
SOLVERS = ("lbfgs", "newton-cholesky")  # of fairlearn's LogisticRegression(C=1): its default, and the fastest here
PEERS = tuple((peer, solver) for peer in (EG, GRID) for solver in SOLVERS)
GRID_SIZES = (41, 60)  # models of GridSearch, for two groups and for more
STRENGTHS = np.linspace(0.1, 1.0, 10)
ETAS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)


def run(found, budget):
    cases = CASES
    if found.quick:
        cases = {"COMPAS, race": ("COMPAS", ("race",), (80,))}
        CASES.update(cases)
    splits = 1 if found.quick else SPLITS
    jobs = [(case, seed) for seed in range(splits) for case in cases]
    results = in_parallel(
        [(*job, found.quick) for job in jobs], Budget((0.6 if found.quick else 0.72) * budget.seconds)
    )
    found.text(
        f"""{splits} splits (tables say where fewer), 70% to train on. Every method is tuned on the training rows
        alone to the loosest setting whose training decisions reach the p%-rule (every value of an attribute against
        the rest), C = 1; shown are means over the splits of test figures, with +- half of a 95% interval of the mean;
        "(2 of 5)" tells in how many splits the rule was reached in training, "(tried on 2)" that the others were left
        out.
        ExponentiatedGradient decides at random: its accuracy and rates are expected ones. LossBound and
        CovarianceBound take points of the covariance path, so that row stands for both. AUC is of the scores.
        fairlearn uses LogisticRegression(C=1), here with newton-cholesky, its fastest solver. For two attributes
        fairlearn takes their combinations as groups."""
    )
    for case, (_, _, levels) in cases.items():
        mine = [results[case, seed] for seed in range(splits) if (case, seed) in results]
        if not mine:
            found.text(f"{case}: no split was finished in the time there was.")
            continue
        show(found, case, levels, mine)
    clock = {case: time_ratios(case, results, budget, found.quick) for case in cases}
    claims(found, cases, results, clock, splits)


# --- running


def in_parallel(jobs, budget):
    """Work on two splits at once: nothing is timed here."""
    results = {}
    if len(jobs) == 1:
        *key, result = _job(jobs[0])
        return {tuple(key): result}
    with multiprocessing.get_context("fork").Pool(2) as pool:
        answers = pool.imap_unordered(_job, jobs)
        for _ in jobs:
            try:
                case, seed, result = answers.next(timeout=max(1.0, budget.left))
            except multiprocessing.TimeoutError:
                log("  out of time: fewer splits")
                break
            log(f"  {case}, split {seed}: {budget.spent:.0f} s")
            results[case, seed] = result
        pool.terminate()
    return results


def _job(job):
    warnings.simplefilter("ignore")
    case, seed, quick = job
    data, attributes, levels = CASES[case]
    train, test = split(load(data).of(*attributes), seed)
    return case, seed, Case(train, test, levels, seed, len(attributes) == 1).run(quick)


class Case:
    """One split of one data set: ``answers[method][level]`` is a dict of figures, or text where there is none."""

    def __init__(self, train, test, levels, seed, single):
        self.train, self.test, self.levels, self.seed = train, test, levels, seed
        self.binary = single and train.z.iloc[:, 0].nunique() == 2
        self.single = single
        self.answers = {}

    def run(self, quick):
        for method in (
            self.unconstrained,
            self.ours,
            self.grid_search,
            self.reductions,
            self.thresholds,
            self.sampling,
            self.remover,
            self.reweighing,
            self.lego,
        ):
            if quick and method in (self.thresholds, self.lego, self.remover):
                continue
            try:
                method()
            except Exception as error:
                self.answers[method.__name__] = {level: shortly(error) for level in self.levels}
        return self.answers

    def figures(self, decide, score=None, **more):
        """Return the figures of ``decide(people)``, the share of positive decisions (n,), and ``score(people)``."""
        from sklearn.metrics import roc_auc_score

        on_train, on_test = decide(self.train), decide(self.test)
        scores = on_test if score is None else score(self.test)
        return {
            "accuracy": accuracy(on_test, self.test.y),
            "train_accuracy": accuracy(on_train, self.train.y),
            "auc": float(roc_auc_score(self.test.y, scores)),
            "p": p_of(on_test, self.test.z),
            "train_p": p_of(on_train, self.train.z),
            **more,
        }

    def of_model(self, model, **more):
        def score(people):
            if hasattr(model, "decision_function"):
                return np.asarray(model.decision_function(people.X))
            return np.asarray(model.predict_proba(people.X))[:, 1]

        return self.figures(lambda people: np.asarray(model.predict(people.X)).astype(float), score, **more)

    def choose(self, name, candidates):
        """For each level take the most accurate of the candidates that reach it in training."""
        self.answers[name] = {}
        for level in self.levels:
            able = [c for c in candidates if c["train_p"] >= level - 1e-9]
            best = max(able, key=lambda c: c["train_accuracy"], default=None)
            most = max((c["train_p"] for c in candidates), default=0.0)
            self.answers[name][level] = best or f"not reached ({most:.0f}%)"

    def unconstrained(self):
        model = FairLogisticRegression(constraint=None).fit(self.train.X, self.train.y)
        figures = self.of_model(model)
        self.answers["unconstrained"] = {level: {**figures, "always": True} for level in self.levels}

    def ours(self):
        ways = {
            OURS: (FairLogisticRegression, "auto"),
            "fairmargin, covariance path": (FairLogisticRegression, "covariance"),
            "fairmargin, decision path": (FairLogisticRegression, "decisions"),
        }
        if self.binary or (self.single and self.seed == 0):  # the hinge loss takes longest where groups are many
            ways[HINGE] = (FairLinearSVC, "auto")
        if len(self.train) < 6000 and self.seed < 2 and len(self.levels) > 1:  # it takes seconds a level
            ways["**PRuleBound, rbf kernel**"] = (FairSVC, "auto")
        for name, (estimator, path) in ways.items():
            self.answers[name] = {}
            for level in self.levels:
                try:
                    model = estimator(constraint=PRuleBound(level, path=path))
                    model.fit(self.train.X, self.train.y, sensitive_features=self.train.z)
                    self.answers[name][level] = self.of_model(model)
                except Exception as error:
                    self.answers[name][level] = shortly(error)

    def grid_search(self):
        model = peers.grid_search(self.train, grid_size(self.train))
        self.choose(GRID, [self.of_model(m) for m in model.predictors_])

    def reductions(self):
        """Search the difference bound: the loosest that reaches each level, by interpolation, few fits a level."""
        seen = {}

        def look(bound):
            model = peers.exponentiated_gradient(self.train, bound)
            seen[bound] = self.figures(lambda people: model._pmf_predict(people.X)[:, 1], bound=bound)

        rate = float(self.train.y.mean())
        for level in sorted(self.levels):
            for _ in range(2 if seen else 3):
                bound = next_bound(seen, level, rate)
                if bound is None:
                    break
                look(bound)
        self.choose(EG, list(seen.values()))

    def thresholds(self):
        from fairlearn.postprocessing import ThresholdOptimizer
        from sklearn.linear_model import LogisticRegression

        base = LogisticRegression(solver="newton-cholesky").fit(self.train.X, self.train.y)
        candidates = []
        for tol in (None,) if not self.single else (0.06, 0.04, 0.02, 0.01, None):
            try:
                model = ThresholdOptimizer(
                    estimator=base,
                    prefit=True,
                    predict_method="predict_proba",
                    **({} if tol is None else {"tol": tol}),
                )
                model.fit(self.train.X, self.train.y, sensitive_features=self.train.z)
            except TypeError:
                continue  # a version without a tolerance
            decide = lambda people, m=model: m._pmf_predict(people.X, sensitive_features=people.z)[:, 1]  # noqa: E731
            candidates.append(self.figures(decide))
        self.choose("fairlearn ThresholdOptimizer" + NEEDS_Z, candidates)

    def sampling(self):
        from fairmargin.baselines import PreferentialSampling

        self.search("PreferentialSampling", STRENGTHS, lambda s: PreferentialSampling(_plain(), strength=s))

    def remover(self):
        from fairmargin.baselines import PrejudiceRemover

        name = "PrejudiceRemover" + NEEDS_Z
        if not self.binary:
            self.answers[name] = dict.fromkeys(self.levels, "two groups only")
            return
        candidates = []
        for eta in ETAS:
            model = PrejudiceRemover(eta=eta).fit(self.train.X, self.train.y, sensitive_features=self.train.z)
            decide = lambda q, m=model: np.asarray(m.predict(q.X, sensitive_features=q.z)).astype(float)  # noqa: E731
            score = lambda q, m=model: m.decision_function(q.X, sensitive_features=q.z)  # noqa: E731
            candidates.append(self.figures(decide, score))
        self.choose(name, candidates)

    def reweighing(self):
        from fairmargin.baselines import Reweighing

        self.search("Reweighing (no setting)", (None,), lambda _: Reweighing(_plain()))

    def search(self, name, settings, make):
        if not self.binary:
            self.answers[name] = dict.fromkeys(self.levels, "two groups only")
            return
        models = [make(s).fit(self.train.X, self.train.y, sensitive_features=self.train.z) for s in settings]
        self.choose(name, [self.of_model(m) for m in models])

    def lego(self):
        """scikit-lego takes seconds per fit: one split and zero covariance only where there are many people."""
        many = len(self.train) > 6000
        if not self.binary:
            self.answers["scikit-lego"] = dict.fromkeys(self.levels, "numeric columns only")
            return
        if many and self.seed > 0:
            return
        free = FairLogisticRegression(constraint=None).fit(self.train.X, self.train.y)
        c = abs(peers.covariance(self.train, free.coef_[0]))
        candidates = []
        for share in (0.0,) if many else (0.5, 0.25, 0.0):
            w, b = peers.scikit_lego(self.train, share * c)
            decide = lambda q, w=w, b=b: (q.X @ w + b >= 0).astype(float)  # noqa: E731
            candidates.append(self.figures(decide, lambda q, w=w: q.X @ w))
        self.choose("scikit-lego" + (" (c = 0, one split)" if many else ""), candidates)


def grid_size(people):
    two = people.z.shape[1] == 1 and people.z.iloc[:, 0].nunique() == 2
    return GRID_SIZES[0] if two else GRID_SIZES[1]


def _plain():
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(solver="newton-cholesky")


def next_bound(seen, level, rate):
    """Return the difference bound to try next, None where the last ones are close enough to the level."""
    points = sorted((bound, f["train_p"]) for bound, f in seen.items())
    reached = [b for b, p in points if p >= level]
    if any(level <= p <= level + min(1.5, 0.2 * (100.5 - level)) for _, p in points):
        return None
    failed = [b for b, p in points if p < level and (not reached or b > max(reached))]
    if not points:
        return (100 - level) / 100 * rate / 2
    if not reached:
        b, p = points[0]
        guess = b * (100 - level) / max(100 - p, 1e-6) * 0.8
        return guess if guess > 1e-5 else None
    if not failed:
        b, p = max((q for q in points if q[1] >= level), key=lambda q: q[0])
        return b * min(2.0, max(1.1, (100 - level) / max(100 - p, 0.5)))
    low, high = max(reached), min(failed)
    p_low, p_high = dict(points)[low], dict(points)[high]
    if high - low < 0.02 * high:
        return None
    share = (p_low - level - 0.3) / max(p_low - p_high, 1e-9)
    return low + min(max(share, 0.15), 0.85) * (high - low)


# --- figures


def accuracy(share, y):
    """Return the (expected) accuracy of deciding positively with probability ``share`` (n,)."""
    return float(np.mean(np.where(y == 1, share, 1.0 - share)))


def p_of(share, z):
    """Return the (expected) p%-rule: the least ratio of rates of a value and the rest, over all attributes."""
    worst = 100.0
    for name in z.columns:
        column = z[name].to_numpy()
        for value in np.unique(column.astype(str)):
            inside = column.astype(str) == value
            rates = share[inside].mean(), share[~inside].mean()
            worst = min(worst, 100.0 * min(rates) / max(rates) if max(rates) > 0 else 0.0)
    return float(worst)


def interval(values):
    """Return mean and half of a 95% interval (t, n - 1 degrees of freedom)."""
    from scipy.stats import t

    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return float(values.mean()), float("nan")
    return float(values.mean()), float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def show(found, case, levels, mine):
    shown = [level for level in levels if level in LEVELS_SHOWN.get(case, levels)] or list(levels)
    found.heading(case)
    names = list(dict.fromkeys(name for answers in mine for name in answers))
    for level in sorted({*shown, *[x for x in levels if x <= 95]}):
        rows = sorted((_shown(name, level, mine) for name in names), key=lambda row: -row[0])
        found.table(
            (f"p = {level}%", "test accuracy %", "test AUC %", "training p%", "test p%"), [r[1:] for r in rows]
        )


def _shown(name, level, mine):
    """Return the mean accuracy of a method over the splits, to sort by, and its row of the table."""
    answers = [a[name][level] for a in mine if name in a]
    good = [a for a in answers if isinstance(a, dict)]
    if not good:
        return 0.0, name, answers[0], "", "", ""
    part = _of(good, answers)
    if len(answers) < len(mine) and not part:
        part = f" (tried on {len(answers)})"
    accuracies = [100 * a["accuracy"] for a in good]
    cells = [_cell(accuracies), _cell([100 * a["auc"] for a in good])]
    cells += [_cell([a["train_p"] for a in good], 1), _cell([a["p"] for a in good], 1)]
    return interval(accuracies)[0], name + part, *cells


def _cell(values, digits=2, sign=""):
    mean, half = interval(values)
    return f"{mean:{sign}.{digits}f}" + (f" +- {half:.{digits}f}" if np.isfinite(half) else "")


def _of(good, tried):
    """Say in how many of the splits that were tried a method got there, unless in all."""
    return "" if len(good) == len(tried) else f" ({len(good)} of {len(tried)})"


def time_ratios(case, results, budget, quick):
    """Time our fit and fairlearn's final one on the first split, in turn and alone on the machine."""
    answers = results.get((case, 0))
    if answers is None:
        return {}
    data, attributes, levels = CASES[case]
    train, _ = split(load(data).of(*attributes), 0)
    clock = {}
    for level in levels:
        if budget.left <= 5:
            break
        losses = {OURS: FairLogisticRegression, HINGE: FairLinearSVC}
        if not isinstance(answers.get(HINGE, {}).get(level), dict):
            del losses[HINGE]
        work = {
            name: lambda e=e, p=level: e(constraint=PRuleBound(p)).fit(train.X, train.y, sensitive_features=train.z)
            for name, e in losses.items()
        }
        runs, _ = interleaved(work, 1 if quick else 2, budget)
        clock[level] = {name: median(s) for name, s in runs.items()}
        final = answers.get(EG, {}).get(level)
        if isinstance(final, dict):
            for solver in SOLVERS:
                answer = apart(
                    lambda b=final["bound"], s=solver: peers.exponentiated_gradient(train, b, s) and None, 60.0
                )
                clock[level][EG, solver] = answer.get("seconds")
    size = grid_size(train)
    for solver in SOLVERS:
        grid = apart(lambda s=solver: peers.grid_search(train, size, s) and None, 60.0)
        for row in clock.values():
            row[GRID, solver] = grid.get("seconds")
    return clock


def claims(found, cases, results, clock, splits):
    rows = []
    for case in (c for c in cases if c in CLAIMED_CASES or found.quick):
        for level in CASES[case][2]:
            row = claim(
                found,
                case,
                level,
                [results[case, s] for s in range(splits) if (case, s) in results],
                clock.get(case, {}).get(level, {}),
            )
            rows += [row] if row else []
    found.heading("PRuleBound beside fairlearn at the same training p%-rule")
    found.table(
        (
            "case",
            "p",
            "reached in training",
            "accuracy %: PRuleBound",
            "EG",
            "GridSearch",
            "held-out p%: PRuleBound",
            "EG",
            "GridSearch",
            "time",
            "EG / ours",
            "EG, newton-cholesky / ours",
            "GridSearch / ours",
            "GridSearch, newton-cholesky / ours",
            "hinge: accuracy %",
            "hinge: time",
        ),
        rows,
        f"""fairlearn's times are with LogisticRegression(C=1) as it is, and given the fastest solver here. Time of EG
        is that of its final fit alone, with the bound already known; its search took up to three fits more a level.
        GridSearch's is one fit of its whole grid, {GRID_SIZES[0]} models for two groups and {GRID_SIZES[1]} for more
        (its default is 10: faster and coarser). A level that a peer did not reach in every split is averaged over
        those in which it did.""",
    )


def claim(found, case, level, mine, clock):
    """Claim what PRuleBound reaches at a level, and how it compares; return the row of the table."""
    if not mine:
        return None
    fits = [{name: by_level.get(level) for name, by_level in answers.items()} for answers in mine]
    kept = sum(reached(f, OURS) and f[OURS]["train_p"] >= level - 1e-9 for f in fits)
    found.claim(
        f"{case}, p = {level}%: PRuleBound reached on the training decisions",
        f"{len(fits)} of {len(fits)} splits",
        f"{kept} of {len(fits)}",
        kept == len(fits),
    )
    ratio = {key: clock[key] / clock[OURS] for key in PEERS if clock.get(key) and clock.get(OURS)}
    for peer in (EG, GRID):
        if case in ("Adult, sex", "Bank, age"):
            claim_accuracy(found, f"{case}, p = {level}%", peer, fits)
        plain, fastest = (ratio.get((peer, solver)) for solver in SOLVERS)
        found.claim(
            f"{case}, p = {level}%: time of {peer} with LogisticRegression(C=1) / PRuleBound",
            "at least 10",
            "" if plain is None else f"{times(plain)} ({times(fastest)} given newton-cholesky)",
            None if plain is None else plain >= 10,
        )
    return (
        case,
        level,
        f"{kept}/{len(fits)}",
        *(mean_text(fits, name, "accuracy", 100, 2) for name in (OURS, EG, GRID)),
        *(mean_text(fits, name, "p", 1, 1) for name in (OURS, EG, GRID)),
        seconds(clock.get(OURS)),
        *(times(ratio.get(key)) for key in PEERS),
        mean_text(fits, HINGE, "accuracy", 100, 2),
        seconds(clock.get(HINGE)),
    )


def claim_accuracy(found, where, peer, fits):
    """Claim that PRuleBound is not behind a peer on held-out people, in the splits in which both got there."""
    both = [f for f in fits if reached(f, OURS) and reached(f, peer)]
    ahead = [100 * (f[OURS]["accuracy"] - f[peer]["accuracy"]) for f in both]
    found.claim(
        f"{where}: mean held-out accuracy, PRuleBound - {peer}",
        "not behind",
        f"{_cell(ahead, sign='+')} points{_of(both, fits)}" if both else "peer did not reach it",
        interval(ahead)[0] >= 0 if both else None,
    )


def reached(fits, name):
    """Whether a method has an answer for this split and level, rather than none or a reason."""
    return isinstance(fits.get(name), dict)


def mean_text(fits, name, key, scale, digits):
    """Return the mean over the splits in which a method got there, as text."""
    good = [f[name][key] for f in fits if reached(f, name)]
    return f"{scale * np.mean(good):.{digits}f}" if good else "-"
