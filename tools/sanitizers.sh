# Builds by clang with sanitizers, for tools/test. Source it with bash, after tools/common.sh.
#
# Every report of a sanitizer is a file in the folder that sanitizer_environment names, also of a
# process whose end no test looks at. sanitizer_reports fails if there is one: nothing forgives it.

# missing_runtimes: the Debian package of clang's sanitizers and libFuzzer, which clang does without, where it
# is not there.
missing_runtimes() {
  local clang version
  clang=$(clang_command clang)
  [ ! -e "$("$clang" -print-file-name=libclang_rt.fuzzer-x86_64.a)" ] || return 0
  version=$("$clang" -dumpversion)
  echo "libclang-rt-${version%%.*}-dev"
}

# sanitizer_options SANITIZERS: options of Meson, one per line; `address,undefined` is one build of both.
# Their runtimes are shared libraries, so that Python can load the same one first. That of
# ThreadSanitizer is in each program: clang 14's shared one calls what it has not initialised yet.
sanitizer_options() {
  local runtimes links flags='-fno-sanitize-recover=all -gline-tables-only -fno-omit-frame-pointer'
  runtimes=$("$(clang_command clang)" -print-resource-dir)/lib/linux
  links="-shared-libsan -Wl,-rpath,$runtimes"
  [ "$1" != thread ] || links=
  printf '%s\n' -Doptimization=1 -Db_sanitize="$1" -Db_lundef=false \
    -Dc_args="$flags" -Dcpp_args="$flags" -Dc_link_args="$links" -Dcpp_link_args="$links"
}

# sanitizer_environment REPORTS [OPTION]: variables of the programs, one per line; OPTION is one more of
# AddressSanitizer. Tests ask malloc for memory that no machine has: it must be able to say no. They
# fork() beside threads as well, and the child starts its own.
sanitizer_environment() {
  local log=log_path=$1/report
  printf '%s\n' "ASAN_OPTIONS=$log:allocator_may_return_null=1:strict_init_order=1${2+:$2}" \
    "UBSAN_OPTIONS=$log:print_stacktrace=1" \
    "TSAN_OPTIONS=$log:die_after_fork=0:suppressions=$PWD/tests/thread_sanitizer.txt"
}

# One more of programs that have a sanitizer. UCX 1.22 asks whether it may read memory of a peer by
# process_vm_readv into the very iovec that it gives as the argument. The runtimes look at that iovec
# behind the call, take what came from the peer for an address, and end with signal 11, or report what lies
# there. Without its module cma it does not ask. Others keep the module: MPICH's ranks, which use UCX as
# well, may wait for ever in MPI_Finalize without it.
without_cma=UCX_MODULES=^cma

# preloaded_runtime SANITIZERS FOLDER: variables with which Python, which has none, can load such a library.
# FOLDER is for a library that initialises ThreadSanitizer.
preloaded_runtime() {
  local clang name libraries first=$2/libthread_sanitizer_first.so
  clang=$(clang_command clang)
  case "$1" in
    address,undefined) name=asan ;;  # has both
    thread) name=tsan ;;
  esac
  libraries=$("$clang" -print-file-name="libclang_rt.$name-x86_64.so")
  if [ "$name" = tsan ]; then
    "$clang" -shared -fPIC -Wl,-z,initfirst tests/support/thread_sanitizer_first.c -o "$first"
    libraries="$libraries $first"
  fi
  printf '%s\n' "LD_PRELOAD=$libraries" PYTHONMALLOC=malloc
}

# sanitizer_reports FOLDER: prints what was found, and fails if that is anything. A file may also have
# warnings alone: of memory that malloc did not give.
sanitizer_reports() {
  local file found=no
  for file in "$1"/report*; do
    grep -sqE 'ERROR: |runtime error: |WARNING: ThreadSanitizer' "$file" || continue
    found=yes
    printf '\n== %s\n' "$file"
    head -n 60 "$file"
  done
  [ "$found" = no ]
}
