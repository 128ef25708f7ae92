"""Values."""

import collections

Metric = collections.namedtuple("Metric", "key value timestamp step")
