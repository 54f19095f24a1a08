"""`python -m mosaic_tpu.cli`, where the command is not on the path."""

import sys

from mosaic_tpu.cli import main

sys.exit(main())
