"""Frames, built byte by byte from IEEE 802.3, RFC 791 and RFC 768."""

from ipaddress import IPv4Address


def mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def internet_checksum(data: bytes) -> int:
    """RFC 1071: the complement of the one's complement sum."""
    total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def ethernet(dst: str, src: str, kind: int, payload: bytes) -> bytes:
    return mac(dst) + mac(src) + kind.to_bytes(2, "big") + payload


def ipv4_udp(
    src: str, dst: str, sport: int, dport: int, payload: bytes = b"payload", ttl: int = 64
) -> bytes:
    udp = (
        sport.to_bytes(2, "big")
        + dport.to_bytes(2, "big")
        + (8 + len(payload)).to_bytes(2, "big")
        + b"\0\0"
        + payload
    )
    head = (
        bytes([0x45, 0])
        + (20 + len(udp)).to_bytes(2, "big")
        + bytes([0, 1, 0, 0, ttl, 17])
        + b"\0\0"
        + IPv4Address(src).packed
        + IPv4Address(dst).packed
    )
    checksum = internet_checksum(head).to_bytes(2, "big")
    return head[:10] + checksum + head[12:] + udp
