"""The seven models on a GPU beside this machine's processor; says so where there is no GPU."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "models"))


def median_ms(program, path, batch, device):
    """The median of the runs on a device, or None where the device is not there."""
    run = subprocess.run([program, "bench", path, "--dim", f"N={batch}", "--device", device], capture_output=True, text=True)
    found = re.search(r"median ([\d.]+) ms", run.stdout)
    if found is None:
        sys.exit(f"cuda_bench: {path} on {device}: {run.stderr.strip()}")
    return float(found.group(1))


def build_library(build):
    """The kernels for this machine's GPU; the reason where they cannot be built or run."""
    if shutil.which("nvidia-smi") is None or subprocess.run(["nvidia-smi", "-L"], capture_output=True).returncode != 0:
        return "no GPU is on this machine"
    if subprocess.run(["cmake", "-B", build, "-DWALLE_CUDA=ON", "-DCMAKE_CUDA_ARCHITECTURES=native"],
                      stdout=subprocess.DEVNULL).returncode != 0:
        return "there is no nvcc that builds for this GPU"
    if subprocess.run(["cmake", "--build", build, "--target", "walle-engine-cuda"], stdout=subprocess.DEVNULL).returncode != 0:
        return "there is no nvcc"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--only", default="", help="models whose name begins so")
    options = parser.parse_args()
    reason = build_library(options.build)
    if reason is not None:
        print(f"cuda: nothing is measured: {reason}")
        return
    import make_models  # needs numpy and onnx
    os.environ["WALLE_ENGINE_CUDA"] = os.path.abspath(os.path.join(options.build, "lib", "libwalle-engine-cuda.so"))
    program = os.path.join(options.build, "bin", "walle-engine")
    folder = os.path.join(HERE, "out", "models-cuda")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(HERE, "out", "cuda.jsonl"), "w", encoding="utf-8") as out:
        for name in (n for n in make_models.MODELS if n.startswith(options.only)):
            path = os.path.join(folder, name + ".onnx")
            if not os.path.exists(path):
                make_models.onnx.save(make_models.make(name, "N", "folded").model(), path)
            for batch in (1, 32):
                ours, host = (median_ms(program, path, batch, device) for device in ("cuda", "cpu"))
                print(f"cuda.{name}.b{batch:<3} {ours:9.3f} ms   the processor, one thread {host:9.3f} ms")
                json.dump({"bench": f"cuda.{name}.b{batch}", "ours": ours, "peer": "cpu", "theirs": host, "unit": "ms",
                           "ratio": host / ours, "better": "lower"}, out)
                out.write("\n")


if __name__ == "__main__":
    main()
