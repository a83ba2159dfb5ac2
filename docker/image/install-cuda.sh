#!/bin/bash
# Assembles the two locked CUDA compilers: install-cuda.sh FOLDER LOCKS WHEELS DEBS.
#
# Makes FOLDER/cuda12 and FOLDER/cuda13. LOCKS holds requirements-cuda{12,13}.txt, requirements-cudart12.txt and
# debian-cuda.lock, which name the inputs; each is verified here again. Nothing here asks for a GPU.
set -euo pipefail

target=$1 locks=$2 wheels=$3 debs=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

verify() { echo "$1  $2" | sha256sum --check --quiet; }

# Verifies the wheels of requirements-$1.txt and unpacks them into one folder.
unpack() {
  local name version sha256 wheel
  while read -r name version sha256; do
    wheel=$(echo "$wheels/${name//-/_}-$version"-*.whl)
    verify "$sha256" "$wheel"
    python -m zipfile -e "$wheel" "$work/$2"
  done < <(sed -nE 's/^([a-z0-9-]+)==([0-9.]+) --hash=sha256:([0-9a-f]{64})$/\1 \2 \3/p' "$locks/requirements-$1.txt")
}

read -r sha256 _ _ _ path <<<"$(grep -v '^#' "$locks/debian-cuda.lock")"
package=$debs/$(basename "$path")
verify "$sha256" "$package"

unpack cuda13 13
unpack cuda12 12
unpack cudart12 12static

# CUDA 13: the wheels have the layout of a CUDA home.
mv "$work/13/nvidia/cu13" "$work/cuda13"

# CUDA 12: Debian's package has the programs that the wheels of 12.4 lack, such as nvcc and cicc.
(cd "$work" && ar p "$package" data.tar.xz | tar -xJ ./usr ./etc)
cuda12=$work/cuda12
mkdir -p "$cuda12"/{bin,include,lib,nvvm/bin}
programs=$work/usr/lib/nvidia-cuda-toolkit
cp -r "$programs"/bin/{nvcc,crt} "$work"/usr/bin/{bin2c,cudafe++,cuobjdump,fatbinary,nvlink,ptxas} "$cuda12/bin"
rm -f "$cuda12/bin/nvcc.profile"
cp "$programs/bin/cicc" "$cuda12/nvvm/bin"
cp -r "$programs/libdevice" "$cuda12/nvvm"
for part in cuda_nvcc cuda_runtime cuda_cccl; do cp -r "$work/12/nvidia/$part/include/." "$cuda12/include"; done
cp "$work"/12static/nvidia/cuda_runtime/lib/libcudart{_static.a,.so.12} "$cuda12/lib"
# torch's CUDAExtension links the shared runtime, which torch's own packages have at run time; the wheels lack this link.
ln -s libcudart.so.12 "$cuda12/lib/libcudart.so"
ln -s libcudart.so.13 "$work/cuda13/lib/libcudart.so"
cat >"$cuda12/bin/nvcc.profile" <<'PROFILE'
TOP = $(_HERE_)/..
CICC_PATH = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(CICC_PATH):$(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib"
PROFILE

# The licences of what a wheel contains: the runtime that is linked, the headers that are compiled in.
keep_licence() {
  mkdir -p "$work/$1/licenses/$2"
  cp "$(find "$work/$3/${2//-/_}"-*.dist-info -name License.txt)" "$work/$1/licenses/$2/"
}
keep_licence cuda12 nvidia-cuda-cccl-cu12 12
keep_licence cuda12 nvidia-cuda-runtime-cu12 12static
keep_licence cuda13 nvidia-cuda-cccl 13
keep_licence cuda13 nvidia-cuda-runtime 13
chmod 755 "$work"/cuda1[23]/bin/* "$work"/cuda1[23]/nvvm/bin/*

for name in cuda12 cuda13; do
  # cicc has its own malloc and crashes under libfaketime, which `make reproduce` preloads. So it runs without it.
  mv "$work/$name/nvvm/bin/cicc" "$work/$name/nvvm/bin/cicc.program"
  cat >"$work/$name/nvvm/bin/cicc" <<'WRAPPER'
#!/bin/sh
unset LD_PRELOAD
exec "$0.program" "$@"
WRAPPER
  chmod 755 "$work/$name/nvvm/bin/cicc"
  rm -rf "${target:?}/$name"
  mkdir -p "$target"
  mv "$work/$name" "$target"
  echo "$target/$name: $("$target/$name/bin/nvcc" --version | sed -n 's/.*\(V[0-9.]*\)$/nvcc \1/p')"
done
