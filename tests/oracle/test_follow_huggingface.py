#!/usr/bin/env python3
"""test_follow_huggingface.py: Hugging Face's Trainer with frugal's callback, killed by SIGTERM and resumed: a case of test_follow.py that needs more than the others."""
import sys

sys.dont_write_bytecode = True
import test_follow

sys.exit(test_follow.main(["huggingface"]))
