#!/usr/bin/env bash
# Print the interpreter to make .venv of: the newest one >= 3.11 on the path that is about as fast as the fastest, and of
# two of one version the faster.
#
# Builds of one version differ by up to a third in a loop like the one below, for some were optimised by a profile (PGO)
# and others not, and not all say so of themselves. So each one is timed; nothing is printed when there is none.
set -euo pipefail

# Writes version, processor time of a short loop in microseconds, and path; nothing where it is too old or has no venv.
read -r -d '' loop <<'PYTHON' || true
import sys
if sys.version_info >= (3, 11):
    import ensurepip, os, time
    class Sum:
        def __init__(self, start):
            self.total, self.terms = start, {}
        def add(self, term):
            self.terms[term] = self.total = self.total + term
            return str(self.terms.get(term)).rjust(9)
    def measure():
        start = time.process_time()
        for number in range(1500):
            sum_ = Sum(number)
            sorted([sum_.add(term) for term in range(20)], key=len)
        return time.process_time() - start
    best = min(measure() for _ in range(4))
    print(sys.version_info[1], round(best * 1e6), os.path.realpath(sys.executable))
PYTHON

for name in python3.14 python3.13 python3.12 python3.11 python3; do type -ap "$name" || true; done | sort -u |
	while read -r candidate; do "$candidate" -I -c "$loop" 2>/dev/null || true; done |
	sort -u -k3,3 | awk '
		{ minor[NR] = $1; time[NR] = $2; $1 = $2 = ""; path[NR] = substr($0, 3); if (NR == 1 || time[NR] < least) least = time[NR] }
		END {
			for (i = 1; i <= NR; i++) if (time[i] <= 1.12 * least) {
				if (!best || minor[i] > minor[best] || minor[i] == minor[best] && time[i] < time[best]) best = i
			}
			if (best) print path[best]
		}'
