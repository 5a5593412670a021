"""The recipes of the book."""

import pathlib
import re

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "python.md"


def test_recipes_run():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 5
    names = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)


def test_the_import_starts_no_thread():
    import subprocess
    import sys

    code = "import os; import numpy; n = len(os.listdir('/proc/self/task')); import pairloom; print(len(os.listdir('/proc/self/task')) - n)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "0\n"
