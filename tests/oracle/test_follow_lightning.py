#!/usr/bin/env python3
"""test_follow_lightning.py: Lightning with frugal's callback, killed by SIGTERM and resumed: a case of test_follow.py that needs more than the others."""
import sys

sys.dont_write_bytecode = True
import test_follow

sys.exit(test_follow.main(["lightning"]))
