"""Point 16: a repository somebody else made does not write outside the scratch folder of its version, whatever the names in
its trees are. The trees are written by hand, object by object: git itself would not make them."""
import hashlib
import os
import subprocess
import unittest
import zlib

from walle_stack import Stack

FILE, FOLDER, LINK, MODULE = "100644", "40000", "120000", "160000"
TASK_JSON = b'{"entry": "task", "files": ["task.py"]}'
TASK_PY = b"import walle\nwalle.result(1)\n"


class Repository:
    """A bare repository made of loose objects."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("objects", "refs/heads", "refs/tags"):
            os.makedirs(os.path.join(folder, name))
        self.text("HEAD", "ref: refs/heads/main\n")
        self.text("config", "[core]\n\trepositoryformatversion = 0\n\tbare = true\n")

    def text(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def put(self, kind, content):
        raw = f"{kind} {len(content)}".encode() + b"\0" + content
        name = hashlib.sha1(raw).hexdigest()
        folder = os.path.join(self.folder, "objects", name[:2])
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, name[2:]), "wb") as file:
            file.write(zlib.compress(raw))
        return name

    def blob(self, content):
        return self.put("blob", content)

    def tree(self, *entries):
        """Entries are (mode, name, id), written as they come."""
        return self.put("tree", b"".join(
            mode.encode() + b" " + (name if isinstance(name, bytes) else name.encode()) + b"\0" + bytes.fromhex(id)
            for mode, name, id in entries))

    def tag(self, tree, tag="v1.0.0"):
        who = "ana <ana@example.com> 1700000000 +0000"
        commit = self.put("commit", f"tree {tree}\nauthor {who}\ncommitter {who}\n\nhostile\n".encode())
        self.text("refs/heads/main", commit + "\n")
        self.text("refs/tags/" + tag, commit + "\n")

    def whole(self, *more):
        """A good version with more entries."""
        return self.tree(*more, (FILE, "task.json", self.blob(TASK_JSON)), (FILE, "task.py", self.blob(TASK_PY)))


class GitTree(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.number = 0
        self.temporary = self.stack.path("deep", "tmp")
        os.makedirs(self.temporary)

    def repository(self):
        self.number += 1
        return Repository(self.stack.path(f"shop{self.number}.git"))

    def seen(self):
        """All that lies in the scratch folder of this test, repositories apart."""
        return sorted(os.path.join(at, name) for at, folders, files in os.walk(self.stack.folder) for name in folders + files
                      if ".git" not in at and not name.endswith(".git"))

    def verify(self, repository, *options):
        before = self.seen()
        run = subprocess.run([os.path.join(os.environ["WALLE_BIN"], "walle"), "task", "verify", repository.folder, "--tag", "v1.0.0",
                              *options], capture_output=True, timeout=60, stdin=subprocess.DEVNULL,
                             env={**os.environ, "TMPDIR": self.temporary})
        self.assertEqual(self.seen(), before, "something was written outside, or left behind")
        return run.returncode, run.stdout, run.stderr

    def refused(self, text, tree_of):
        repository = self.repository()
        repository.tag(tree_of(repository))
        code, out, error = self.verify(repository)
        self.assertEqual(code, 5, (text, out, error))
        self.assertIn(text.encode(), error)

    def test_a_good_tree_verifies(self):
        repository = self.repository()
        deep = repository.blob(b"deep")
        repository.tag(repository.whole((FOLDER, "a", repository.tree((FOLDER, "b", repository.tree((FILE, "c", deep))))),
                                        (FILE, "..data", deep), (FILE, ".gitignore", deep), (FILE, "gr\u00fcn.txt", deep)))
        code, out, error = self.verify(repository)
        self.assertEqual((code, error), (0, b""), out)
        self.assertIn(b"verified", out)

    def test_names_that_lead_out_are_refused(self):
        def up(levels):
            def make(repository):
                tree = repository.tree((FILE, "escaped", repository.blob(b"out")))
                for _ in range(levels):
                    tree = repository.tree((FOLDER, "..", tree))
                return repository.whole((FOLDER, "..", tree))
            return make
        for levels in (2, 1, 0):
            self.refused("'..'", up(levels))
        names = (("..", "'..'"), (".", "'.'"), ("", "empty"), ("../escaped", "'/'"), ("a/../../../escaped", "'/'"),
                 ("/tmp/walle-escaped", "'/'"), ("a/b", "'/'"), (".git", "'.git'"), (".GIT", "'.git'"),
                 ("x\x1b[2Jy", "control"), ("x\ny", "control"), ("x\x7f", "control"), ("n" * 256, "longer than 255"))
        for name, text in names:
            with self.subTest(name=name):
                self.refused(text, lambda r, name=name: r.whole((FILE, name, r.blob(b"out"))))
                self.refused(text, lambda r, name=name: r.whole((FOLDER, name, r.tree((FILE, "x", r.blob(b"out"))))))

    def test_hooks_of_the_repository_stay_as_they_are(self):
        self.refused("'.git'", lambda r: r.whole((FOLDER, ".git", r.tree((FOLDER, "hooks", r.tree(
            ("100755", "post-checkout", r.blob(b"#!/bin/sh\n"))))))))

    def test_links_and_modules_are_refused(self):
        self.refused("symbolic link", lambda r: r.whole((LINK, "escape", r.blob(b"/tmp"))))
        self.refused("submodule", lambda r: r.whole((MODULE, "escape", r.blob(b"x"))))
        # A link, and a folder of the same name behind it: the folder's files would land where the link points.
        target = self.stack.path("target")
        os.mkdir(target)
        self.refused("symbolic link", lambda r: r.whole(
            (LINK, "escape", r.blob(target.encode())), (FOLDER, "escape", r.tree((FILE, "x", r.blob(b"out"))))))
        self.assertEqual(os.listdir(target), [])

    def test_the_same_name_twice_is_refused(self):
        self.refused("twice", lambda r: r.whole((FILE, "a", r.blob(b"1")), (FILE, "a", r.blob(b"2"))))
        self.refused("twice", lambda r: r.whole((FILE, "a", r.blob(b"1")), (FOLDER, "a", r.tree((FILE, "x", r.blob(b"2"))))))

    def test_trees_that_grow_are_refused(self):
        def bomb(repository):  # ten folders, ten levels: ten thousand million folders out of ten objects
            tree = repository.tree((FILE, "x", repository.blob(b"")))
            for _ in range(10):
                tree = repository.tree(*((FOLDER, f"f{i}", tree) for i in range(10)))
            return repository.whole((FOLDER, "bomb", tree))

        def well(repository):
            tree = repository.tree((FILE, "x", repository.blob(b"")))
            for _ in range(200):
                tree = repository.tree((FOLDER, "d", tree))
            return repository.whole((FOLDER, "d", tree))
        def long(repository):  # a path that the system's own calls would not take: the scratch folder could not be removed
            tree = repository.tree((FILE, "x", repository.blob(b"")))
            for _ in range(30):
                tree = repository.tree((FOLDER, "d" * 200, tree))
            return repository.whole((FOLDER, "d", tree))
        self.refused("longer than 768", long)
        self.refused("more than 4096", bomb)
        self.refused("deeper than 32", well)

    def test_damaged_trees_are_refused(self):
        for content in (b"100644", b"100644 x", b"100644 x\0short", b"999999999999 x\0" + b"i" * 20, b" x\0" + b"i" * 20):
            repository = self.repository()
            repository.tag(repository.put("tree", content))
            code, out, error = self.verify(repository)
            self.assertEqual(code, 5, (content, out, error))
            self.assertNotEqual(error, b"")

    def test_a_shared_file_is_a_file(self):
        repository = self.repository()
        task = b'{"entry": "task", "files": ["task.py", {"name": "x.bin", "from": "shared", "path": "%s"}]}'
        for path, text in ((b"link", b"symbolic link"), (b"../x", b"'..'"), (b"a//x", b"empty")):
            repository.tag(repository.tree((LINK, "link", repository.blob(b"/etc/hostname"))), "shared")
            repository.tag(repository.tree((FILE, "task.json", repository.blob(task % path)),
                                           (FILE, "task.py", repository.blob(TASK_PY))))
            code, out, error = self.verify(repository)
            self.assertEqual(code, 5, (path, out, error))
            self.assertIn(text, error)

    def test_a_folder_option_stays_inside(self):
        repository = self.repository()
        repository.tag(repository.whole())
        for folder in ("..", "a/../..", "/tmp", "a//b", "."):
            code, _, error = self.verify(repository, "--folder", folder)
            self.assertEqual(code, 5, error)
            self.assertIn(b"--folder", error)


class Build(unittest.TestCase):
    """What lies in a folder that was cloned does not redirect what a build writes there or sends."""

    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.__exit__, None, None, None)
        self.source, self.out, self.target = (self.stack.path(name) for name in ("source", "out", "target"))
        for folder in (self.source, self.out, self.target):
            os.mkdir(folder)
        for name, content in (("task.json", TASK_JSON[:-1] + b', "name": "t", "version": "1.0.0"}'), ("task.py", TASK_PY)):
            with open(os.path.join(self.source, name), "wb") as file:
                file.write(content)

    def test_a_link_for_the_blobs_folder_is_refused(self):
        os.symlink(self.target, os.path.join(self.out, "blobs"))
        run = self.stack.walle("task", "build", self.source, "--out", self.out, check=False)
        self.assertEqual(run.returncode, 5, run.stdout + run.stderr)
        self.assertIn("symbolic link", run.stderr)
        self.assertEqual(os.listdir(self.target), [])

    def test_a_link_for_a_blob_is_refused(self):
        self.stack.walle("task", "build", self.source, "--out", self.out)
        blobs = os.path.join(self.out, "blobs")
        secret = os.path.join(self.target, "secret")
        with open(secret, "wb") as file:
            file.write(b"a private key")
        for name in os.listdir(blobs):
            os.unlink(os.path.join(blobs, name))
            os.symlink(secret, os.path.join(blobs, name))
        run = self.stack.walle("task", "verify", self.out, check=False)
        self.assertEqual(run.returncode, 5, run.stdout + run.stderr)
        self.assertIn("symbolic link", run.stderr)

    def test_a_pipe_for_a_blob_is_refused(self):
        self.stack.walle("task", "build", self.source, "--out", self.out)
        blobs = os.path.join(self.out, "blobs")
        for name in os.listdir(blobs):
            os.unlink(os.path.join(blobs, name))
            os.mkfifo(os.path.join(blobs, name))
        run = self.stack.walle("task", "verify", self.out, check=False)
        self.assertEqual(run.returncode, 5, run.stdout + run.stderr)
        self.assertIn("not a regular file", run.stderr)

    def test_a_link_for_an_exclusive_file_is_refused(self):
        folder = os.path.join(self.source, "exclusive", "user", "ana")
        os.makedirs(folder)
        os.symlink("/etc/hostname", os.path.join(folder, "words.bin"))
        with open(os.path.join(self.source, "task.json"), "wb") as file:
            file.write(TASK_JSON[:-1] + b', "name": "t", "version": "1.0.0", "exclusive": {"path": "exclusive"}}')
        run = self.stack.walle("task", "build", self.source, "--out", self.out, check=False)
        self.assertEqual(run.returncode, 5, run.stdout + run.stderr)
        self.assertIn("symbolic link", run.stderr)


if __name__ == "__main__":
    unittest.main()
