#!/usr/bin/env python3
"""The format of a store on a wheel is written down completely: a reader made of nothing but the comments in
diskwheel_state.c, diskwheel_run.h, diskwheel_block.h and record.h finds in the golden folder what its told.txt says. It
shares no code with the store.
"""

import os
import struct
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "wheel-1")
TABLES = ("timers", "moved", "names")
ALL = (1 << 64) - 1


def crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC = crc_table()


def crc32c(*parts):
    crc = 0xFFFFFFFF
    for part in parts:
        for byte in part:
            crc = crc >> 8 ^ CRC[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def lz4(data, size):
    """Unpacks one block of LZ4's block format."""
    out, at = bytearray(), 0

    def length(start):
        nonlocal at
        if start == 15:
            while True:
                more = data[at]
                at += 1
                start += more
                if more != 255:
                    break
        return start

    while at < len(data):
        token = data[at]
        at += 1
        literals = length(token >> 4)
        out += data[at:at + literals]
        at += literals
        if at == len(data):
            break
        offset = int.from_bytes(data[at:at + 2], "little")
        at += 2
        for _ in range(length(token & 15) + 4):
            out.append(out[-offset])
    assert len(out) == size
    return bytes(out)


class Text:
    """Bytes that are taken from the begin on."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        self.at += size
        assert self.at <= len(self.data)
        return self.data[self.at - size:self.at]

    def number(self, size):
        return int.from_bytes(self.take(size), "little")

    def group(self):
        number = shift = 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def is_over(self):
        return self.at == len(self.data)


def read(name):
    with open(os.path.join(FOLDER, name), "rb") as file:
        return file.read()


def block(data, at, size, run_id, table, count):
    """The records of a block."""
    head, stored = data[at:at + 16], data[at + 16:at + size]
    raw_size, stored_size, records, of, is_packed, checksum = struct.unpack("<IIHBBI", head)
    assert stored_size == len(stored) and records == count and TABLES[of] == table
    assert checksum == crc32c(struct.pack("<QQ", run_id, at), head[:12], stored)
    text = Text(lz4(stored, raw_size) if is_packed else stored)
    assert len(text.data) == raw_size
    high = low = 0
    for number in range(records):
        step, rest = text.group(), text.group()
        low = rest if number == 0 or step else low + rest
        high += step
        yield (high, low), text.take(text.group())
    assert text.is_over()


def run_records(number, run_id):
    """The records of a run: by table a list of key and value."""
    data = read(f"run-{number:016x}")
    foot = data[-48:]
    magic, version, zero, own, own_id, index_at, index_sum, foot_sum = struct.unpack("<8sIIQQQII", foot)
    assert (magic, version, zero, own, own_id) == (b"tickwrun", 1, 0, number, run_id)
    assert foot_sum == crc32c(foot[:44])
    index = Text(data[index_at:-48])
    assert index_sum == crc32c(index.data)
    tables, at = {}, 0
    for table in TABLES:
        blocks, count = index.group(), index.group()
        records, high = [], 0
        for _ in range(blocks):
            high += index.group()
            first = high, index.group()
            size, of_block = index.group(), index.group()
            found = list(block(data, at, size, run_id, table, of_block))
            assert found[0][0] == first
            records += found
            at += size
        last = index.group(), index.group()
        assert len(records) == count and last == (records[-1][0] if records else (0, 0))
        assert [key for key, _ in records] == sorted(key for key, _ in records)
        tables[table] = records
    assert at == index_at
    for _ in range(index.group()):
        partition, rows, least, greatest = index.group(), index.group(), index.group(), index.group()
        index.group(), index.group()
        of = [key[0] & (1 << 48) - 1 for key, _ in tables["timers"] if key[0] >> 48 == partition]
        assert (rows, least, greatest) == (len(of), min(of), max(of))
    for _ in TABLES:
        index.take(index.group())
    assert index.is_over()
    return tables


def partition_of(table, key, value):
    if table == "timers":
        return key[0] >> 48
    return key[0] if table == "moved" else int.from_bytes(value[1:3], "little")


def is_over(table, number, key, value, marks, cuts):
    if marks and marks[number // 64] >> number % 64 & 1:
        return True
    cut = cuts.get(partition_of(table, key, value), 0)
    return cut == ALL or (table == "timers" and (key[0] & (1 << 48) - 1) < cut)


def state_head():
    data = read("STATE")
    assert int.from_bytes(data[-4:], "little") == crc32c(data[:-4])
    text = Text(data[:-4])
    assert text.take(8) == b"tickwsta" and text.number(4) == 1
    partitions = text.number(2)
    assert text.number(2) == 0
    text.take(24)  # the next run, damaged records and blocks
    text.take(8)  # size of the partitions
    return text, partitions, text.number(4)


def state_partition(text, partition, lines):
    place = text.take(text.number(1))
    next_offset = int.from_bytes(place[1:9], "little") if place else 0
    lines.append(f"place {partition} {next_offset}")
    text.take(8)  # the greatest serial
    for _ in range(text.number(4)):
        key = text.take(text.number(1))
        value = text.take(text.number(4))
        if key[:1] != b"h":  # a partition's holds are not exported
            lines.append(f"meta {key.hex()} {crc32c(value):08x}")


def folder_lines():
    """What told.txt has: each record, and where each partition is in its log."""
    text, partitions, runs = state_head()
    lines, found = [], {}
    for partition in range(partitions):
        state_partition(text, partition, lines)
    for _ in range(runs):
        number, run_id = text.number(8), text.number(8)
        cuts = {text.number(2): text.number(8) for _ in range(text.number(2))}
        tables = run_records(number, run_id)
        for table in TABLES:
            stored, size = text.number(4), text.number(4)
            packed = text.take(stored)
            marks = lz4(packed, size) if stored != size else packed
            words = struct.unpack(f"<{len(marks) // 8}Q", marks)
            for at, (key, value) in enumerate(tables[table]):
                if not is_over(table, at, key, value, words, cuts):
                    found[table, key] = value
    assert text.number(4) == 0 and text.is_over()  # nothing was set aside
    for (table, key), value in found.items():
        name = struct.pack(">HQ" if table == "moved" else ">QQ", *key).hex()
        lines.append(f"{table} {name} {crc32c(value):08x}")
    return sorted(lines)


class WheelReaderTest(unittest.TestCase):
    def test_the_golden_folder(self):
        told = read("told.txt").decode().splitlines()
        self.assertGreater(len(told), 300)
        self.assertEqual(folder_lines(), told)


if __name__ == "__main__":
    unittest.main()
