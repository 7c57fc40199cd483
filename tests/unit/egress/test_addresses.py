"""Which addresses requests may reach (docs/reference/egress.md#what-is-refused)."""

from ipaddress import ip_address, ip_network

import pytest

from statewright.egress.policy import is_reachable


@pytest.mark.parametrize("text", ["1.1.1.1", "8.8.8.8", "172.15.255.255", "172.32.0.0", "2606:4700::1111", "2a00::1"])
def test_public_addresses_are_reached(text: str):
    assert is_reachable(ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254"),
        *("168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1"),
        *("192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "255.255.255.255"),
        *("::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "100::1", "4000::1"),
        *("2001::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "64:ff9b:1::1"),
    ],
)
def test_addresses_that_are_not_public_are_not_reached(text: str):
    assert not is_reachable(ip_address(text))


@pytest.mark.parametrize("prefix", ["::ffff:", "64:ff9b::"])
def test_an_address_inside_another_is_judged_itself(prefix: str):
    assert is_reachable(ip_address(f"{prefix}8.8.8.8"))
    assert not is_reachable(ip_address(f"{prefix}10.0.0.1"))
    assert is_reachable(ip_address(f"{prefix}10.0.0.1"), [ip_network("10.0.0.0/24")])


def test_a_network_that_is_named_is_reached_and_no_other():
    allowed = [ip_network("10.20.0.0/16"), ip_network("fd00::/64")]
    assert is_reachable(ip_address("10.20.3.4"), allowed)
    assert is_reachable(ip_address("fd00::5"), allowed)
    assert not is_reachable(ip_address("10.21.0.1"), allowed)
    assert not is_reachable(ip_address("169.254.169.254"), allowed)
