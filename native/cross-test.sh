#!/bin/sh
# Runs the crate's tests as an ARM program on this machine: Debian's gcc-aarch64-linux-gnu links, qemu-user runs
# (.cargo/config.toml), rustup's target aarch64-unknown-linux-gnu compiles. Arguments go to cargo test, for example
# `./cross-test.sh --lib kernel`. Emulation says whether results are right, nothing about time.
set -eu
cd "$(dirname "$0")"
target=aarch64-unknown-linux-gnu
for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v "$tool" >/dev/null || {
        echo "cross-test: $tool is missing: apt install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user" >&2
        exit 2
    }
done
rustup target list --installed | grep -qx "$target" || {
    echo "cross-test: rustup target add $target" >&2
    exit 2
}
exec cargo test --target "$target" "$@"
