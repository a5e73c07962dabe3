"""python -m xpwc runs the tool."""

import os
import sys

from ._tool import executable

os.execv(executable(), ["xpwc", *sys.argv[1:]])
