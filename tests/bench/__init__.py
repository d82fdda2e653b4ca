"""Benchmarks: they print figures and assert nothing."""

import os

from ambientd.child import ONE_THREAD_EACH

# As in the daemon's children; before anything loads numpy.
os.environ.update(ONE_THREAD_EACH)
