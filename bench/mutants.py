"""Try mutmut's mutants of rooms: `python -m bench mutants [--rooms chain] [--modules lots ...]`.

Each mutant changes one operator, number, argument, string or assignment inside a function. The
tests are collected once; each mutant gets a fork of that process, in which the code of the changed
function is exchanged, and must fail a test that reaches its line: the quickest first, and all of
them before it counts as survived. bench/_equivalents.py lists mutants without a visible effect.
Needs `pip install mutmut==3.8.1`.
"""

import argparse
import ast
import contextlib
import gc
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

import coverage
import libcst
import pytest
from libcst.metadata import MetadataWrapper
from mutmut.mutation.file_mutation import MutationVisitor
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode

from bench._equivalents import EQUIVALENTS
from bench._rooms import QUIET, ROOMS, ROOT, list_modules, list_tests

MAX_BYTES = 4 << 30
# Processor seconds in addition to five times a test's own, and the factor for the wall clock.
SPARE_SECONDS, PATIENCE = 20, 20
SURVIVED, KILLED, NOT_MADE, BROKEN = 0, 1, 2, 3


class Mutant(NamedTuple):
    """A mutant: its module's path, its statement's lines before and after, and the whole mutated
    module.
    """

    path: str
    lines: range
    before: str
    after: str
    text: str


def main(arguments):
    """Print each survivor and a table of scores; exit with 1 below 95%."""
    parser = argparse.ArgumentParser(
        prog="python -m bench mutants", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=list(ROOMS))
    parser.add_argument("--modules", nargs="+", help="only these modules of the rooms")
    parser.add_argument("--tests", nargs="+", help="only these of the files of tests")
    parser.add_argument("--sample", type=int, help="at most so many mutants of a module")
    parser.add_argument("--seed", type=int, default=1, help="draws the sample")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args(arguments)
    os.chdir(ROOT)
    paths = [
        path
        for path in list_modules(args.rooms)
        if not args.modules or Path(path).stem in args.modules
    ]
    mutating = Mutating(paths, args)
    pytest.main([*QUIET, "-s", *list_tests(args.rooms, args.tests)], plugins=[mutating])
    return mutating.tell()


class Mutating:
    """A pytest plugin that replaces the loop over the tests."""

    def __init__(self, paths, args):
        self.paths, self.args = paths, args
        self.scores, self.running, self.failed = defaultdict(Counter), {}, False

    def pytest_configure(self):
        """Don't shrink failures, and draw the same values in each run."""
        # After pytest, which rewrites asserts of its plugins.
        import hypothesis

        hypothesis.settings.register_profile(
            "mutants",
            hypothesis.settings.get_profile("suite"),
            database=None,
            derandomize=True,
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        )
        hypothesis.settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report):
        self.failed |= report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        self.items = session.items
        self.took, self.reached = self.measure()
        self.try_without()
        for path in self.paths:
            gc.unfreeze()
            self.functions = find_functions(path)
            # Garbage collection in a fork would copy all of this memory.
            gc.freeze()
            for mutant in make(path, self.args.sample, self.args.seed):
                self.begin(mutant)
            while self.running:
                self.end_one()
        return True

    def try_without(self):
        """Check that the tests pass without mutants in the same order: quickest first."""
        order = sorted(range(len(self.items)), key=self.took.__getitem__)
        if not (child := os.fork()):
            end_with(lambda: self.play_all(order))
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit("a test fails without any mutant, in another order")

    def measure(self):
        """Measure each test's time and the lines it reaches, in a fork."""
        with tempfile.NamedTemporaryFile("r") as file:
            if not (child := os.fork()):
                end_with(lambda: self.write_measures(file.name))
            _, status = os.waitpid(child, 0)
            if status:
                sys.exit("a test fails without any mutant")
            took, reached = json.load(file)
        return took, {
            path: {int(line): set(t) for line, t in r.items()} for path, r in reached.items()
        }

    def write_measures(self, name):
        measured = coverage.Coverage(data_file=None, config_file=False, include=self.paths)
        measured.start()
        took, following = [], [*self.items[1:], self.items[-1]]
        for number, (item, after) in enumerate(zip(self.items, following, strict=True)):
            measured.switch_context(str(number))
            begun = time.process_time()
            self.play(item, after)
            took.append(time.process_time() - begun)
            if self.failed:
                return KILLED
        measured.stop()
        data = measured.get_data()
        reached = {
            path: {
                line: [int(one) for one in tests if one]
                for line, tests in data.contexts_by_lineno(str(ROOT / path)).items()
            }
            for path in self.paths
        }
        Path(name).write_text(json.dumps([took, reached]))
        return SURVIVED

    def play(self, item, after):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)

    def begin(self, mutant):
        """Start a mutant's tests in a fork once there is a free slot."""
        tests = self.choose_tests(mutant)
        while len(self.running) >= self.args.jobs:
            self.end_one()
        if not (child := os.fork()):
            end_with(lambda: self.try_mutant(mutant, tests))
        self.running[child] = mutant

    def choose_tests(self, mutant):
        """Return the tests that reach its lines, quickest first."""
        reached = self.reached[mutant.path]
        tests = set().union(*(reached.get(line, ()) for line in mutant.lines))
        return sorted(tests, key=self.took.__getitem__)

    def try_mutant(self, mutant, tests):
        resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
        return self.play_all(tests) if exchange(self.functions, mutant) else NOT_MADE

    def play_all(self, tests):
        """Run tests until one fails or takes too long."""
        for number, following in zip(tests, [*tests[1:], *tests[-1:]], strict=True):
            limit(SPARE_SECONDS + int(5 * self.took[number]))
            try:
                self.play(self.items[number], self.items[following])
            # Any exception, even SystemExit, means that the test caught the mutant: without
            # mutants all tests passed (try_without).
            except BaseException:
                return KILLED
            if self.failed:
                return KILLED
        return SURVIVED

    def end_one(self):
        child, status = os.wait()
        if (mutant := self.running.pop(child, None)) is None:
            return
        code, score = os.waitstatus_to_exitcode(status), self.scores[mutant.path]
        if code == BROKEN:
            raise ValueError(f"{mutant.path}:{mutant.lines.start}: {mutant.after!r} was not tried")
        if code == NOT_MADE:
            return
        score["made"] += 1
        # Killed by a signal: a timeout or an interpreter crash.
        score["ended"] += code < 0
        if code != SURVIVED:
            score["killed"] += 1
        elif (mutant.before, mutant.after) in EQUIVALENTS.get(mutant.path, {}):
            score["equivalent"] += 1
        else:
            where = f"{mutant.path}:{mutant.lines.start}"
            print(f"{where}\n    - {mutant.before}\n    + {mutant.after}", flush=True)

    def tell(self):
        """Print the table; return 1 if too few were killed."""
        heads = f"{'mutants':>8} {'killed':>7} {'(ended)':>8} {'the same':>9} {'share':>7}"
        print(f"{'module':30} {heads}")
        for path, score in self.scores.items():
            tell_score(path, score)
        total = sum(self.scores.values(), Counter())
        return 0 if tell_score("together", total) >= 0.95 else 1


def tell_score(name, score):
    """Print one line of the table and return the share of killed mutants. `ended`: those that timed
    out; `the same`: equivalent ones, which don't count.
    """
    share = score["killed"] / max(1, score["made"] - score["equivalent"])
    counts = f"{score['made']:8} {score['killed']:7} {score['ended']:8} {score['equivalent']:9}"
    print(f"{name:30} {counts} {share:7.1%}")
    return share


def limit(seconds):
    """End this fork after this many seconds of processor time, or much longer by the clock."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + seconds, hard))
    signal.alarm(seconds * PATIENCE)


def end_with(work):
    """End this fork with the result of `work`, without output."""
    code = BROKEN
    with contextlib.suppress(BaseException):
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        code = work()
    os._exit(code)


# ------------------------------------------------------------------ making them


def make(path, sample, seed):
    """Return a module's mutants: all, or as many as requested, chosen by the seed."""
    source = Path(path).read_text()
    # Not with its create_mutations(), which needs a configuration.
    visitor = MutationVisitor(mutation_operators, IgnoredCode(set(), set(), set()))
    module = MetadataWrapper(libcst.parse_module(source)).visit(visitor)
    spans = find_spans(source)
    homes = {id(node): at for at, home in enumerate(module.body) for node in walk(home)}
    head = "".join(module.code_for_node(line) for line in module.header)
    parts = [module.code_for_node(statement) for statement in module.body]
    drawn = visitor.mutations
    if sample and sample < len(drawn):
        # Before generating their code, which takes longer than most tests.
        drawn = random.Random(f"{seed}|{path}").sample(drawn, sample)
    for one in drawn:
        at = homes[id(one.original_node)]
        changed = module.body[at].deep_replace(one.original_node, one.mutated_node)
        part = module.code_for_node(changed)
        above = head + "".join(parts[:at])
        same, before, after = differ(parts[at], part)
        line = above.count("\n") + same + 1
        text = above + part + "".join(parts[at + 1 :])
        yield Mutant(path, spans.get(line, range(line, line + 1)), before, after, text)


def walk(node):
    """Yield a node and all its descendants."""
    yield node
    for child in node.children:
        yield from walk(child)


def find_spans(source):
    """Return {line: lines of the innermost statement there; for a compound one, its head}."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno
            span = range(node.lineno, end + 1)
            found.update(dict.fromkeys(span, span))
    return found


def differ(before, after):
    """Return the number of equal lines at the start of two texts, and their differing lines."""
    old, new, same = before.splitlines(), after.splitlines(), 0
    while old and new and old[0] == new[0]:
        old, new, same = old[1:], new[1:], same + 1
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    return same, " ".join(map(str.strip, old)), " ".join(map(str.strip, new))


# ------------------------------------------------------------------ exchanging code


def find_functions(path):
    """Return {name and line: live functions in this process}, and the module's code."""
    functions, full = defaultdict(list), str(ROOT / path)
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename == full:
            functions[one.__code__.co_qualname, one.__code__.co_firstlineno].append(one)
    return functions


def exchange(functions, mutant):
    """Replace a function's code with its mutant's. Return whether that worked."""
    full, made = str(ROOT / mutant.path), False
    try:
        after = compile(mutant.text, full, "exec", dont_inherit=True)
    except SyntaxError:
        return False
    before = compile(Path(mutant.path).read_text(), full, "exec", dont_inherit=True)
    for old, new in find_changes(before, after):
        for function in functions.get((old.co_qualname, old.co_firstlineno), ()):
            if len(old.co_freevars) != len(new.co_freevars):
                return False
            function.__code__, made = new, True
    return made


def find_changes(old, new):
    """Yield pairs of code objects, outermost first, that differ beyond line numbers."""
    if describe(old) == describe(new):
        return
    yield old, new
    inner = [[one for one in code.co_consts if isinstance(one, CodeType)] for code in (old, new)]
    if len(inner[0]) == len(inner[1]):
        for pair in zip(*inner, strict=True):
            yield from find_changes(*pair)


def describe(code):
    """Return everything about a code object except line numbers."""
    constants = [
        describe(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts
    ]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants
