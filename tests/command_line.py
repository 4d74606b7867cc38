"""Commands in this process, for tests of the command line."""

import inspect

from click.testing import CliRunner

from distembed.cli.app import app

RUNNER = CliRunner(**({"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}))


def run(*words, code=0, **more):
    """The answer of a command, after a look at its exit code."""
    result = RUNNER.invoke(app, [str(word) for word in words], prog_name="distembed", **more)
    assert result.exit_code == code, (result.exit_code, result.stderr, result.exception)
    return result


def refused(*words):
    """The one line that a command says when it refuses."""
    (line,) = run(*words, code=2).stderr.splitlines()
    return line
