"""Whom an address stands for."""

from ipaddress import ip_network

import pytest

from statewright.network.sockets import find_address, name_address

PROXIES = tuple(map(ip_network, ("10.0.0.0/8", "2001:db8:9::/48")))


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "20010db800010002::/64"),
        ("2001:db8:1:2::1", "20010db800010002::/64"),
        ("", ""),
    ],
)
def test_addresses_of_one_site_are_one_source(address: str, name: str):
    assert name_address(address) == name


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.7", b"198.51.100.1", "192.0.2.7"),  # nobody believes it
        ("10.0.0.1", b"", "10.0.0.1"),
        ("10.0.0.1", b"198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", b"203.0.113.5, 198.51.100.1", "198.51.100.1"),  # the first one is what the client wrote
        ("10.0.0.1", b"203.0.113.5, 198.51.100.1, 10.0.0.2", "198.51.100.1"),
        ("10.0.0.1", b"10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("::ffff:10.0.0.1", b"198.51.100.1", "198.51.100.1"),
        ("2001:db8:9::1", b"2001:db8:7::1", "2001:db8:7::1"),
        ("10.0.0.1", b"198.51.100.1, unknown", "10.0.0.1"),
        ("10.0.0.1", b"\xff", "10.0.0.1"),
    ],
)
def test_only_trusted_proxies_are_believed_whom_they_speak_for(peer: str, forwarded: bytes, client: str):
    assert find_address(peer, forwarded, PROXIES) == client
