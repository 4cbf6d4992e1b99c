"""Waiting for a job that a form has begun."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from httpx import Response

from app.console.browser import Browser
from cloister.app.console.jobs import Job
from cloister.app.console.scene import Scene
from services.processes import wait_until


def begun(browser: Browser, scene: Scene, path: str, **form: object) -> Job:
    """Send a form that begins a job; return the job."""
    answer = browser.post(path, data=form, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    return scene.jobs.get(parse_qs(urlsplit(answer.headers["location"]).query)["job"][0])


def ended(browser: Browser, scene: Scene, path: str, **form: object) -> Job:
    """Send a form that begins a job, and wait for its end."""
    job = begun(browser, scene, path, **form)
    wait_until(lambda: not job.running)
    return job


def refused(answer: Response, status: int, *words: str) -> None:
    """Assert that a page refuses, and says all of this."""
    assert answer.status_code == status
    for one in words:
        assert one in answer.text
