#!/usr/bin/env bash
# Install what `make browser` needs, where a Debian package manager and the right to use it are there.
#
# The shell without a window takes a quarter less processor time than the whole browser, which serves as well.
set -euo pipefail
test -x "${STATEWRIGHT_TEST_CHROMIUM:-/usr/bin/chromium-headless-shell}" && exit 0
if test "$(id -u)" -eq 0 && command -v apt-get >/dev/null; then
	export DEBIAN_FRONTEND=noninteractive
	# A mirror that does not answer must not keep what waits for this script, least of all where a browser is there.
	apt-get() { command apt-get -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 -o Acquire::Retries=1 "$@"; }
	apt-get update >/dev/null 2>&1 || true
	for browser in chromium-headless-shell chromium; do
		apt-get install -y --no-install-recommends "$browser" fonts-dejavu-core >/dev/null 2>&1 && exit 0
	done
fi
test -x /usr/bin/chromium ||
	echo "No Chromium here, and it could not be installed: the tests of the console in a browser are left out."
