"""Tests of the installed wheel. They need no file of the checkout, except the models in $XPWC_TEST_MODELS:
model.tflite, whose weights are in half precision, model.pte, a program of ExecuTorch, and bundle.litertlm."""

import concurrent.futures
import contextlib
import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import xpwc
from xpwc import _cache, _tool

MODELS = Path(os.environ["XPWC_TEST_MODELS"])


class InNewDirectory(unittest.TestCase):
    def setUp(self) -> None:
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.cache = self.work / "cache"
        self.program = self.work / "model.pte"
        shutil.copy(MODELS / "model.pte", self.program)
        stack.enter_context(mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(self.work / "home")}))

    def require_only(self, *files: Path) -> None:
        """Requires that the cache has these files, and nothing that packing left."""
        self.assertEqual(sorted(files), sorted(self.cache.iterdir()))


class Packing(InNewDirectory):
    def test_the_second_call_finds_the_file_of_the_first(self) -> None:
        path = xpwc.pack(self.program, "executorch", directory=self.cache)
        self.assertEqual(0o444, path.stat().st_mode & 0o777)
        with mock.patch.object(_cache, "run", side_effect=AssertionError("it is packed again")):
            self.assertEqual(path, xpwc.pack(self.program, "executorch", directory=self.cache))
        self.require_only(path)
        xpwc.verify(path, self.program)
        figures = xpwc.stats(path)
        self.assertEqual("xpwc2", figures.format)
        self.assertGreater(figures.entries, 0)
        self.assertEqual(path.stat().st_size, figures.file_bytes)

    def test_a_file_is_in_the_cache_directory_of_the_user(self) -> None:
        path = xpwc.pack(self.program, "executorch")
        self.assertEqual(self.work / "home" / "xpwc", path.parent)
        self.assertEqual(0o700, path.parent.stat().st_mode & 0o777)
        with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": "relative", "HOME": str(self.work)}):
            self.assertEqual(self.work / ".cache" / "xpwc", _cache.cache_directory())
        with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": "", "HOME": ""}):
            self.assertTrue(_cache.cache_directory().is_absolute())

    def test_a_directory_that_cannot_be_made_is_named_with_advice(self) -> None:
        for directory in (self.program, self.program / "below"):
            with self.assertRaisesRegex(xpwc.Error, "choose another directory") as raised:
                xpwc.pack(self.program, "executorch", directory=directory)
            self.assertEqual("permission", raised.exception.kind)
            self.assertIn(str(directory), str(raised.exception))

    def test_a_user_without_a_home_directory_is_told_what_to_set(self) -> None:
        no_home = mock.patch.dict(os.environ, {"XDG_CACHE_HOME": "", "HOME": ""})
        with no_home, mock.patch("os.getuid", return_value=54321):
            with self.assertRaisesRegex(xpwc.Error, "user 54321 has no home directory; set HOME, or .*directory="):
                xpwc.pack(self.program, "executorch")

    def test_paths_may_be_bytes(self) -> None:
        path = xpwc.pack(os.fsencode(self.program), "executorch", directory=os.fsencode(self.cache))
        self.assertEqual(path, xpwc.pack(self.program, "executorch", directory=self.cache))
        self.assertEqual(xpwc.stats(path), xpwc.stats(os.fsencode(path)))
        xpwc.verify(os.fsencode(path), os.fsencode(self.program))
        odd = self.work / os.fsdecode(b"\xff")
        odd.mkdir()
        shutil.copy(self.program, odd)
        path = xpwc.pack(odd / "model.pte", "executorch", directory=odd)
        xpwc.verify(path, os.fsencode(odd / "model.pte"))

    def test_an_error_never_names_the_temporary_directory_whatever_the_locale(self) -> None:
        script = "import sys, xpwc; xpwc.pack(sys.argv[1], 'executorch', directory=sys.argv[2])"
        cache = self.work / "\u6a21\u578b"
        small = 'ulimit -f 500; exec "$0" "$@"'
        for locale in ("C", "C.UTF-8"):
            environment = {**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
            failed = subprocess.run(
                ["sh", "-c", small, sys.executable, "-c", script, str(self.program), str(cache)],
                env=environment, stderr=subprocess.PIPE, check=False,
            )
            self.assertNotEqual(0, failed.returncode)
            self.assertIn(b"file too large", failed.stderr)
            self.assertNotIn(_cache.PACKING.encode(), failed.stderr)

    def test_another_model_cpu_or_runtime_has_another_file(self) -> None:
        names = {
            _cache.name_of(Path("model.pte"), digests, runtime, cpu, target)
            for digests in (["a" * 64], ["b" * 64], ["a" * 64, "b" * 64])
            for runtime in ("executorch", "litert")
            for cpu in (None, "avx2")
            for target in (None, "arm64:cortex-a76")
        }
        self.assertEqual(24, len(names))
        for name in names:
            self.assertRegex(name, r"^[\w.+-]+$")

    def test_callers_that_need_a_file_at_once_pack_it_once(self) -> None:
        script = "import sys, xpwc; print(xpwc.pack(sys.argv[1], 'executorch', directory=sys.argv[2]).stat().st_ino)"
        command = [sys.executable, "-c", script, str(self.program), str(self.cache)]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
        with concurrent.futures.ThreadPoolExecutor(4) as pool, mock.patch.object(_cache, "run", wraps=_cache.run) as run:
            paths = list(pool.map(lambda _: xpwc.pack(self.program, "executorch", directory=self.cache), range(4)))
        inodes = {int(p.communicate()[0]) for p in processes} | {p.stat().st_ino for p in paths}
        self.assertEqual([0] * 3, [p.returncode for p in processes])
        self.assertEqual(1, len(inodes))
        self.assertLessEqual(run.call_count, 1)
        self.require_only(paths[0])

    def test_files_of_a_killed_process_are_removed(self) -> None:
        unfinished = self.cache / (_cache.PACKING + "killed")
        unfinished.mkdir(parents=True)
        (unfinished / "half").write_bytes(bytes(1 << 20))
        self.require_only(xpwc.pack(self.program, "executorch", directory=self.cache))

    def test_a_process_that_was_forked_while_a_thread_packed_does_not_keep_the_lock(self) -> None:
        child, end = 0, os.pipe()
        with _cache.locked(self.cache):
            child = os.fork()
            if child == 0:
                os.close(end[1])
                os.read(end[0], 1)  # until the parent is done
                os._exit(0)
        lock = os.open(self.cache, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            for descriptor in (lock, *end):
                os.close(descriptor)
            os.waitpid(child, 0)

    def test_a_model_that_changes_while_it_is_packed_gets_no_file(self) -> None:
        run = _cache.run

        def run_on_changed(*arguments):
            shutil.copy(MODELS / "other.pte", self.program)
            return run(*arguments)

        with mock.patch.object(_cache, "run", run_on_changed), self.assertRaises(xpwc.SourceChanged):
            xpwc.pack(self.program, "executorch", directory=self.cache)
        self.require_only()

    def test_a_change_that_the_tool_sees_is_a_changed_source(self) -> None:
        failure = {"kind": "source_changed", "message": "model.pte: changed", "exit_code": 1}
        ended = subprocess.CompletedProcess(["xpwc"], 1, json.dumps({"error": failure}).encode(), b"")
        with mock.patch.object(_tool.subprocess, "run", return_value=ended):
            with self.assertRaisesRegex(xpwc.SourceChanged, "model.pte: changed"):
                _tool.run("pack")

    def test_a_failure_is_an_exception_with_the_words_of_the_tool(self) -> None:
        self.program.write_bytes(b"this is no model")
        with self.assertRaises(xpwc.Error) as raised:
            xpwc.pack(self.program, "executorch", directory=self.cache)
        tool = subprocess.run(
            [_tool.executable(), "pack", "--for=executorch", "-o", self.work / "out", self.program],
            stderr=subprocess.PIPE, universal_newlines=True, check=False,
        )
        self.assertIn(str(raised.exception), tool.stderr)
        self.assertEqual("malformed", raised.exception.kind)
        self.assertNotIn(_cache.PACKING, str(raised.exception))
        self.require_only()

    def test_wrong_arguments_are_refused(self) -> None:
        with self.assertRaises(FileNotFoundError):
            xpwc.pack(self.work / "missing.pte", "executorch")
        pipe = self.work / "pipe"
        os.mkfifo(pipe)
        with self.assertRaisesRegex(xpwc.Error, "not a regular file"):
            xpwc.pack(pipe, "executorch")
        with self.assertRaisesRegex(ValueError, "known are litert, executorch, litert-lm"):
            xpwc.pack(self.program, "onnx")
        with self.assertRaisesRegex(xpwc.Error, "vax"):
            xpwc.verify(self.program, self.program, target="vax")
        for wrong in ({"cpu": "z80"}, {"target": "vax"}, {"target": "arm64"}):
            with self.assertRaises(xpwc.Error) as raised:
                xpwc.pack(self.program, "executorch", directory=self.cache, **wrong)
            self.assertEqual("usage", raised.exception.kind, raised.exception)

    @unittest.skipUnless(os.geteuid() == 0, "only root can make a file of another user")
    def test_a_file_of_another_user_in_a_shared_directory_is_refused(self) -> None:
        path = xpwc.pack(self.program, "executorch", directory=self.cache)
        os.chown(path, 12345, 12345)
        self.assertEqual(path, xpwc.pack(self.program, "executorch", directory=self.cache))
        self.cache.chmod(0o1777)
        with self.assertRaisesRegex(xpwc.Error, "another user"):
            xpwc.pack(self.program, "executorch", directory=self.cache)

    @unittest.skipUnless(os.geteuid() == 0, "only root can make a link of another user")
    def test_a_link_of_another_user_in_a_shared_directory_is_refused(self) -> None:
        path = xpwc.pack(self.program, "executorch", directory=self.cache)
        self.cache.chmod(0o1777)
        path.rename(self.work / "mine")
        path.symlink_to(self.work / "mine")
        os.lchown(path, 12345, 12345)
        with self.assertRaisesRegex(xpwc.Error, "another user"):
            xpwc.pack(self.program, "executorch", directory=self.cache)

    def test_a_file_of_another_program_is_not_verified(self) -> None:
        path = xpwc.pack(self.program, "executorch", directory=self.cache)
        with self.assertRaises(xpwc.Error):
            xpwc.verify(path, MODELS / "other.pte")
        with self.assertRaises(xpwc.Error) as raised:
            xpwc.stats(self.program)
        self.assertEqual("not_cache", raised.exception.kind)

    @unittest.skipIf(importlib.util.find_spec("litert_lm"), "litert-lm-api is installed")
    def test_without_the_library_for_litert_one_line_tells_what_to_install(self) -> None:
        with self.assertRaisesRegex(xpwc.Error, r"pip install litert-lm-api==[\d.]+") as raised:
            xpwc.pack(MODELS / "model.tflite", directory=self.cache)
        self.assertNotIn("\n", str(raised.exception))
        for call in (xpwc.litert.options, xpwc.litert.load):
            with self.assertRaisesRegex(xpwc.Error, r"pip install ai-edge-litert==[\d.]+"):
                call(MODELS / "model.tflite")


class Installation(unittest.TestCase):
    def test_a_package_in_a_directory_of_its_own_runs_its_own_program(self) -> None:
        with tempfile.TemporaryDirectory() as work:
            target = Path(work, "vendor", "lib")  # as pip install --target makes it
            shutil.copytree(Path(xpwc.__file__).parent, target / "xpwc")
            info = next(Path(xpwc.__file__).parent.parent.glob("xpwc-*.dist-info"))
            shutil.copytree(info, target / info.name)
            (target / info.name / "RECORD").write_text("../../bin/xpwc,,\n")
            for program in (target / "bin" / "xpwc", Path(work, "bin", "xpwc")):
                program.parent.mkdir()
                program.write_text("#!/bin/sh\n")
                program.chmod(0o755)
            script = "from xpwc import _tool; print(_tool.executable())"
            environment = {**os.environ, "PYTHONPATH": str(target)}
            found = subprocess.run([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, check=True)
            self.assertEqual(str(target / "bin" / "xpwc"), found.stdout.decode().strip())

    def test_a_tool_that_may_not_be_executed_is_named(self) -> None:
        with mock.patch("os.access", return_value=False):
            with self.assertRaisesRegex(xpwc.Error, "bin/xpwc: it may not be executed; .*noexec"):
                _tool.executable()

    @unittest.skipUnless(os.geteuid() == 0, "only root can hide /proc")
    def test_without_proc_one_line_tells_what_to_mount(self) -> None:
        script = "import xpwc\ntry: xpwc.layout()\nexcept xpwc.Error as error: print(error)"
        hide = 'mount -t tmpfs none /proc && exec "$0" "$@"'
        hidden = ["unshare", "--mount", "sh", "-c", hide, sys.executable, "-c", script]
        printed = subprocess.run(hidden, stdout=subprocess.PIPE, check=True).stdout.decode()
        self.assertRegex(printed, "^[^\n]*shared libraries[^\n]*; mount /proc[^\n]*\n$")

    def test_too_little_address_space_is_told_in_one_line(self) -> None:
        script = "import xpwc\ntry: xpwc.layout()\nexcept xpwc.Error as error: print(error)"
        limited = ["sh", "-c", 'ulimit -v 400000; exec "$0" "$@"', sys.executable, "-c", script]
        printed = subprocess.run(limited, stdout=subprocess.PIPE, check=True).stdout.decode()
        self.assertRegex(printed, r"^xpwc: fatal error: [^\n]*; raise the limit of address space \(ulimit -v\)[^\n]*\n$")

    def test_the_package_and_the_tool_have_one_version(self) -> None:
        printed = subprocess.run([sys.executable, "-m", "xpwc", "--version"], stdout=subprocess.PIPE, check=True)
        self.assertIn(f"xpwc version {xpwc.__version__}", printed.stdout.decode())
        self.assertIn(xpwc.layout().fingerprint, printed.stdout.decode())

    def test_the_package_has_types(self) -> None:
        self.assertTrue((Path(xpwc.__file__).parent / "py.typed").exists())


@unittest.skipUnless(importlib.util.find_spec("litert_lm"), "litert-lm-api is not installed")
class LiteRTLM(InNewDirectory):
    def setUp(self) -> None:
        super().setUp()
        self.bundle = self.work / "bundle.litertlm"
        shutil.copyfile(MODELS / "bundle.litertlm", self.bundle)
        os.utime(self.bundle, (1_700_000_000.5, 1_700_000_000.5))  # near a whole second a file gets two names

    def test_the_directory_of_a_bundle_is_verified(self) -> None:
        directory = xpwc.pack(self.bundle, "litert-lm", directory=self.cache)
        xpwc.verify(directory, self.bundle)
        (file,) = directory.iterdir()
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.chmod(0o644)
        file.write_bytes(content)
        with self.assertRaises(xpwc.Error):
            xpwc.verify(directory, self.bundle)

    def test_a_file_with_two_names_counts_once(self) -> None:
        os.utime(self.bundle, (1_700_000_000, 1_700_000_000))
        directory = xpwc.pack(self.bundle, "litert-lm", directory=self.cache)
        first, second = directory.iterdir()
        self.assertTrue(first.samefile(second))
        figures = xpwc.stats(directory)
        self.assertEqual(("litert", first.stat().st_size), (figures.format, figures.file_bytes))
        xpwc.verify(directory, self.bundle)

    def test_a_directory_without_packed_weights_is_refused(self) -> None:
        with self.assertRaisesRegex(xpwc.Error, "no file of packed weights"):
            xpwc.stats(self.work)


@unittest.skipUnless(importlib.util.find_spec("ai_edge_litert"), "ai-edge-litert is not installed")
class StockLiteRT(InNewDirectory):
    def setUp(self) -> None:
        super().setUp()
        self.model = self.work / "model.tflite"
        shutil.copy(MODELS / "model.tflite", self.model)

    def answers(self, options=None):
        """Returns what the stock runtime answers to one input."""
        from ai_edge_litert.compiled_model import CompiledModel

        return self.answers_of(CompiledModel.from_file(str(self.model), options=options))

    def answers_of(self, loaded):
        """Returns what a loaded model answers to one input, and closes it."""
        import numpy

        with loaded as model:
            inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
            generator = numpy.random.default_rng(1)
            for index, buffer in enumerate(inputs):
                count = model.get_input_buffer_requirements(index)["buffer_size"] // 4
                buffer.write(generator.random(count, dtype=numpy.float32))
            model.run_by_index(0, inputs, outputs)
            counts = [model.get_output_buffer_requirements(i)["buffer_size"] // 4 for i in range(len(outputs))]
            return [b.read(c, numpy.float32).tobytes() for b, c in zip(outputs, counts)]

    def retrain(self) -> None:
        """Negates weights of the model, in place of a training."""
        from ai_edge_litert import schema_py_generated as schema

        content = bytearray(self.model.read_bytes())
        model = schema.Model.GetRootAs(content, 0)
        lengths = [model.Buffers(i).DataLength() for i in range(model.BuffersLength())]
        weights = bytes(model.Buffers(lengths.index(max(lengths))).DataAsNumpy())
        start = content.find(weights)
        for high_byte in range(start + 1, start + len(weights), 2):
            content[high_byte] ^= 0x80
        self.model.write_bytes(content)

    def test_a_retrained_model_never_meets_the_file_of_the_old_one(self) -> None:
        answers = self.answers()
        first = xpwc.litert.options(self.model, directory=self.cache)
        old = first.cpu_options.xnnpack_weight_cache_path
        self.assertEqual(answers, self.answers(first))
        self.retrain()
        retrained = self.answers()
        self.assertNotEqual(answers, retrained)
        self.assertEqual(answers, self.answers(first), "LiteRT believes any file: that is why the path must change")
        second = xpwc.litert.options(self.model, directory=self.cache)
        self.assertNotEqual(old, second.cpu_options.xnnpack_weight_cache_path)
        self.assertEqual(retrained, self.answers(second))

    def test_a_model_that_is_replaced_while_it_is_loaded_is_not_returned(self) -> None:
        from ai_edge_litert.options import Options

        options = Options()
        options.cpu_options.num_threads = 1
        answers = self.answers()
        self.assertEqual(answers, self.answers_of(xpwc.litert.load(self.model, options=options, directory=self.cache)))
        self.assertEqual("", options.cpu_options.xnnpack_weight_cache_path, "it is the caller's")

        pack = xpwc.litert.pack

        def pack_and_replace(*arguments, **named):
            path = pack(*arguments, **named)
            replaced = self.work / "replaced"
            shutil.copy(self.model, replaced)
            self.model, model = replaced, self.model
            self.retrain()
            self.model = model
            os.replace(replaced, model)
            return path

        with mock.patch("xpwc.litert.pack", pack_and_replace), self.assertRaises(xpwc.SourceChanged):
            xpwc.litert.load(self.model, directory=self.cache)
        retrained = self.answers()
        self.assertNotEqual(answers, retrained)
        self.assertEqual(retrained, self.answers_of(xpwc.litert.load(self.model, directory=self.cache)))

    def test_flags_that_change_what_is_packed_are_refused(self) -> None:
        from ai_edge_litert.options import Options

        options = Options()
        options.cpu_options.xnnpack_flags = 1
        with self.assertRaisesRegex(xpwc.Error, "default flags"):
            xpwc.litert.load(self.model, options=options, directory=self.cache)

    def test_the_stock_runtime_leaves_the_file_as_it_is(self) -> None:
        options = xpwc.litert.options(self.model, directory=self.cache)
        path = Path(options.cpu_options.xnnpack_weight_cache_path)
        content, inode = path.read_bytes(), path.stat().st_ino
        self.answers(options)
        self.assertEqual((content, inode), (path.read_bytes(), path.stat().st_ino))
        xpwc.verify(path, self.model)
        self.require_only(path)

    def test_another_version_of_litert_is_refused(self) -> None:
        with mock.patch("xpwc.litert.version", return_value="2.2.0"):
            with self.assertRaisesRegex(xpwc.Error, r"ai-edge-litert==[\d.]+; installed is 2\.2\.0"):
                xpwc.litert.options(self.model, directory=self.cache)


if __name__ == "__main__":
    unittest.main()
