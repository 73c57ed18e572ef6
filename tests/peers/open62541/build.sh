#!/bin/sh
# Builds the peers of the interoperability tests: open62541 (MPL-2.0; a program of its own, never part of the product) and
# the programs beside this script.
#
#   tests/peers/open62541/build.sh SOURCE OUT      SOURCE: a folder or tarball of open62541 1.5; OUT: a folder for the result
#
# Needs cmake, a C compiler and the headers of mbedTLS (Debian: libmbedtls-dev; PubSub security is not in open62541's
# OpenSSL part). Takes one to three minutes on two cores. Then: export SITS_OPEN62541=OUT/bin
set -eu

[ $# -eq 2 ] || { echo "usage: $0 SOURCE OUT" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
if [ -d "$1" ]; then
    source=$(cd "$1" && pwd)
else
    source="$out/source"
    rm -rf "$source"
    mkdir "$source"
    tar -xf "$1" -C "$source" --strip-components=1
fi

cmake -S "$source" -B "$out/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$out/install" -DUA_LOGLEVEL=300 \
    -DUA_ENABLE_PUBSUB=ON -DUA_ENABLE_PUBSUB_INFORMATIONMODEL=OFF -DUA_ENABLE_ENCRYPTION=MBEDTLS \
    -DUA_NAMESPACE_ZERO=REDUCED -DUA_ENABLE_JSON_ENCODING=ON -DUA_MULTITHREADING=0 > "$out/cmake.log"
cmake --build "$out/build" --target install --parallel 2 > "$out/build.log"

mkdir -p "$out/bin"
for program in publisher subscriber server client; do
    "${CC:-cc}" -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -I"$out/install/include" "$here/$program.c" -o "$out/bin/$program" \
        -L"$out/install/lib" -lopen62541 -lmbedtls -lmbedx509 -lmbedcrypto -lm -lrt
done
echo "export SITS_OPEN62541=$out/bin"
