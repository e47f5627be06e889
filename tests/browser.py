"""Headless Chromium, as Debian installs it: what a page does, asks for and looks like."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

WIDE, PHONE = 1200, 390  # CSS pixels
_QUIET = (
    "--headless=new",
    "--no-sandbox",  # the tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def absent() -> str:
    """Return what is missing for a browser; empty where nothing is."""
    return ", ".join(name for name in ("chromium", "chromedriver") if shutil.which(name) is None)


class Page:
    """One page in one browser."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, path: Path, *, width: int = WIDE, dark: bool = False) -> None:
        """Open a file as a person with such a screen does; what was told before is forgotten."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.console(), self.requests()
        self.driver.get(path.as_uri())

    def console(self) -> list[str]:
        """Return what the console said since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Return the addresses that were asked for since the last call."""
        told = (json.loads(e["message"])["message"] for e in self.driver.get_log("performance"))
        return [
            event["params"]["request"]["url"]
            for event in told
            if event["method"] == "Network.requestWillBeSent"
        ]

    def ask(self, script: str, *arguments: object) -> object:
        """Return what an expression of JavaScript is in the page."""
        return self.driver.execute_script(f"return {script}", *arguments)

    def press(self, key: str) -> None:
        """Press a key where the focus is."""
        self.driver.switch_to.active_element.send_keys(key)

    def boxes(self, selector: str) -> list[tuple[float, float]]:
        """Return width and height of all elements that a selector names."""
        found = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return [(each.rect["width"], each.rect["height"]) for each in found]

    def save(self, path: Path) -> None:
        """Write a picture of the whole page."""
        height = self.ask("document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": self.ask("innerWidth"), "height": height, "scale": 1}
        wanted = {"captureBeyondViewport": True, "clip": clip}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", wanted)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browser() -> Iterator[Page]:
    """Start Chromium with a profile of its own."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in _QUIET:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
    try:
        yield Page(driver)
    finally:
        driver.quit()
