"""Prints `passed failed skipped` of a JUnit file, as ctest and pytest write it."""

import sys
import xml.etree.ElementTree


def count(path: str) -> tuple[int, int, int]:
    cases = list(xml.etree.ElementTree.parse(path).getroot().iter("testcase"))
    failed = sum(case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail"
                 for case in cases)
    skipped = sum(case.find("skipped") is not None for case in cases)
    return len(cases) - failed - skipped, failed, skipped


print(*count(sys.argv[1]))
