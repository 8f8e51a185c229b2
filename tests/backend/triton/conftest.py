"""The simulated driver, for the tests beside this file."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
