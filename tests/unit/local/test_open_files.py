"""A shell often allows 256 or 1,024 open files, and each idle connection of a client is one."""

import resource
import subprocess
import sys

import pytest

from tests.running_stack import ROOT

CODE = """
import resource, local.__main__ as stack
stack.parse = lambda arguments: ()
async def run():
    print(*resource.getrlimit(resource.RLIMIT_NOFILE))
stack.run = run
for limits in ((11_000, 12_000), (256, 12_000), (256, 4_096)):
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    stack.main()
"""


def test_the_stack_raises_its_limit_of_open_files_as_far_as_it_may() -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 12_000:
        pytest.skip("this user may not open so many files")
    command = [sys.executable, "-c", CODE]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == ["11000 12000", "10240 12000", "4096 4096"]
