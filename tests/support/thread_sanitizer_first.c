// Initialises ThreadSanitizer before the libraries that its shared runtime links to, which call
// what it intercepts. For programs that do not have the runtime, such as Python: loaded behind it,
// with the linker's flag `initfirst`.
void __tsan_init(void);

__attribute__((constructor)) static void initialise(void) { __tsan_init(); }
