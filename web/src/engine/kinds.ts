// What kind of code a function is, from its object and name: the colours of the graph.

export type Kind = 'own' | 'runtime' | 'libc' | 'library' | 'kernel' | 'unknown';

export const kKinds: readonly Kind[] = ['own', 'runtime', 'libc', 'library', 'kernel', 'unknown'];

export const kKindNames: Record<Kind, string> = {
  own: 'own code',
  runtime: 'language runtime',
  libc: 'libc',
  library: 'other libraries',
  kernel: 'kernel',
  unknown: 'unknown',
};

const kKernelObject = /^\[(kernel|guest\.kernel|vmlinux|bpf|extra|hypervisor)|^vmlinux|\.ko(\.(xz|gz|zst))?$|^bpf_prog_/;
const kLibc =
    /^(libc|libm|libpthread|libdl|librt|libresolv|libnsl|libutil|libanl|libmvec)(-[\d.]+)?\.so|^ld(-linux|-musl|-[\d.]+|64)?[-.\w]*\.so|^libc\.musl|^\[v(dso|syscall|var)/;
const kRuntimeObject =
    /^(libstdc\+\+|libc\+\+|libc\+\+abi|libgcc_s|libsupc|libgomp|libomp|libtbb|libstd-|libjvm|libjava|libnio|libpython|libruby|libperl|libphp|libnode|libv8|libmono|libcoreclr|libclrjit|libluajit|liblua|libgo|libgfortran|libasan|libtsan|libubsan|libtcmalloc|libjemalloc|libmimalloc)|^(python|ruby|perl|php|node|java|lua|luajit|beam\.smp|dotnet)[\d.]*$/;
const kRuntimeName =
    /^(runtime|internal\/runtime|runtime\/internal|gcWriteBarrier|_rt0_)[./\w]*\.|^runtime\.|^(std|core|alloc|__gnu_cxx|__cxxabiv1|abi|tokio::runtime)::|^<(std|core|alloc)::|^(operator new|operator delete)\b|^__(cxa|gxx|rust|asan|tsan|ubsan)_/;
const kSystemPath = /^\/(usr\/|usr\/local\/)?lib(32|64|x32)?\//;

function fileName(object: string): string {
  return object.slice(object.lastIndexOf('/') + 1);
}

/**
 * A kernel or module first, then C library, then language runtime (by object or, for what is linked into the
 * program, by the name's prefix), then shared libraries of the system. The rest is the program's own.
 */
export function kindOf(name: string, object: string): Kind {
  if (name.endsWith('_[k]')) return 'kernel';
  if (object === '' || object === '[unknown]') return 'unknown';
  const file = fileName(object);
  if (kKernelObject.test(object) || kKernelObject.test(file)) return 'kernel';
  if (kLibc.test(file)) return 'libc';
  if (kRuntimeObject.test(file)) return 'runtime';
  if (kRuntimeName.test(name)) return 'runtime';
  if (/^\[(jit|anon|heap|stack)/i.test(object) || /^perf-\d+\.map$/.test(file) || object.startsWith('//anon')) {
    return 'own';
  }
  // A module in brackets: [nf_tables].
  if (/^\[\w+\]$/.test(object)) return 'kernel';
  if (kSystemPath.test(object) && /\.so(\.|$)/.test(file)) return 'library';
  return 'own';
}
