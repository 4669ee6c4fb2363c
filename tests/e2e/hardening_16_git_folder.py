"""Point 16: what a cloned repository's own folder holds in place of the files git keeps there (a pipe, a device, a file without end, a
link, an include) neither holds `walle` up nor fills its memory; it says which file it is."""
import os
import shutil
import subprocess
import unittest

from hardening_16_git_tree import Repository
from walle_stack import Stack

TAG = "v1.0.0"
HUGE = 1 << 40


class GitFolder(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.good = Repository(self.stack.path("good.git"))
        self.good.tag(self.good.whole())
        self.number = 0

    def copy(self, name=None):
        self.number += 1
        folder = self.stack.path(name or f"shop{self.number}.git")
        shutil.copytree(self.good.folder, folder, symlinks=True)
        return folder

    def verify(self, folder):
        run = subprocess.run([os.path.join(os.environ["WALLE_BIN"], "walle"), "task", "verify", folder, "--tag", TAG],
                             capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        return run.returncode, run.stdout + run.stderr

    def takes(self, folder):
        code, said = self.verify(folder)
        self.assertEqual(code, 0, said)

    def refuses(self, folder, *words):
        code, said = self.verify(folder)
        self.assertEqual(code, 5, said)
        for word in words:
            self.assertIn(word, said)

    def an_object(self, folder):
        return next(os.path.join("objects", name, os.listdir(os.path.join(folder, "objects", name))[0])
                    for name in sorted(os.listdir(os.path.join(folder, "objects"))) if len(name) == 2)

    def put(self, folder, name, make):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.lexists(path):
            os.unlink(path)
        make(path)

    def test_what_is_no_file_is_refused_by_name(self):
        def pipe(path):
            os.mkfifo(path)

        def device(path):
            os.symlink("/dev/zero", path)

        def huge(path):
            with open(path, "wb") as file:
                file.truncate(HUGE)

        def link_to_a_pipe(path):
            os.mkfifo(self.stack.path(f"pipe{self.number}"))
            os.symlink(self.stack.path(f"pipe{self.number}"), path)

        names = ["refs/tags/" + TAG, "refs/heads/main", "refs/heads/other", "HEAD", "packed-refs", "commondir", "objects/info/alternates",
                 "objects/aa/" + "b" * 38, "objects/pack/pack-1.idx", self.an_object(self.good.folder)]
        for name in names:
            for make in (pipe, device, huge, link_to_a_pipe):
                if make is huge and name.endswith(".idx"):
                    continue  # mapped, not read
                with self.subTest(name=name, make=make.__name__):
                    folder = self.copy()
                    self.put(folder, name, make)
                    self.refuses(folder, name)

    def test_what_is_not_needed_is_not_read(self):
        for name in ("config", "description", "hooks/pre-commit"):
            folder = self.copy()
            self.put(folder, name, lambda path: None)
            os.mkfifo(os.path.join(folder, name))
            self.takes(folder)
        folder = self.copy()
        os.mkfifo(os.path.join(folder, "included"))
        self.put(folder, "config", lambda path: None)
        with open(os.path.join(folder, "config"), "w", encoding="utf-8") as file:
            file.write("[core]\n\trepositoryformatversion = 0\n\tbare = true\n[include]\n\tpath = included\n")
        self.takes(folder)

    def test_folders_that_lead_elsewhere(self):
        tree = self.stack.path("tree")
        os.mkdir(tree)
        link = os.path.join(tree, ".git")
        os.mkfifo(link)
        self.refuses(tree, ".git")
        self.put(tree, ".git", lambda path: open(path, "wb").truncate(HUGE))
        self.refuses(tree, ".git")
        # A file that names the folder, as those of linked work trees and submodules do, is followed and the folder looked at.
        folder = self.copy()
        self.put(tree, ".git", lambda path: open(path, "w", encoding="utf-8").write(f"gitdir: {folder}\n"))
        self.takes(tree)
        self.put(folder, "refs/tags/" + TAG, os.mkfifo)
        self.refuses(tree, "refs/tags/" + TAG)
        # So are folders of objects that are borrowed from, and those they borrow from.
        folder, other = self.copy(), self.copy()
        for borrower, lender in ((folder, other), (other, folder)):
            os.makedirs(os.path.join(borrower, "objects", "info"))
            with open(os.path.join(borrower, "objects", "info", "alternates"), "w", encoding="utf-8") as file:
                file.write(f"# borrowed\n\n{lender}/objects\n")
        shutil.rmtree(os.path.join(folder, os.path.dirname(self.an_object(folder))))
        self.refuses(folder, "objects")  # one borrows from the other, for ever
        os.unlink(os.path.join(other, "objects", "info", "alternates"))
        self.takes(folder)
        name = self.an_object(other)
        self.put(other, name, os.mkfifo)
        self.refuses(folder, name)

    def test_what_git_makes_is_taken(self):
        def git(*words):
            subprocess.run(["git", *words], check=True, capture_output=True, timeout=60,
                           env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"})
        folder, clone, worktree = self.copy("shop.git"), self.stack.path("clone"), self.stack.path("worktree")
        git("clone", "-q", "--shared", folder, clone)
        self.takes(clone)
        os.mkdir(os.path.join(clone, "deeper"))
        self.takes(os.path.join(clone, "deeper"))  # found above
        git("-C", clone, "worktree", "add", "-q", "--detach", worktree)
        self.takes(worktree)
        git("-C", folder, "gc", "-q")
        git("-C", folder, "pack-refs", "--all")
        self.takes(folder)
        os.symlink(clone, self.stack.path("link"))
        self.takes(self.stack.path("link"))


if __name__ == "__main__":
    unittest.main()
