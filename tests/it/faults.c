/* Calls of the file system that fail by a seed, as a library that is loaded under a process (LD_PRELOAD).
 *
 * FAULTS_FOLDER  only files below this folder, by absolute path
 * FAULTS_SEED    a number
 * FAULTS_HARD    calls in a million that fail with an error of the disk; of calls that are rare, all but opening, reading
 *                and asking for the status, ten times as many
 * FAULTS_SOFT    calls in a million that are slow, interrupted by a signal (EINTR), or read or write fewer bytes than asked,
 *                which POSIX allows
 * FAULTS_LOG     file to which each fault appends a line
 *
 * Whether the n-th call of a kind fails for a file is a function of the seed, the kind, the path below the folder and n. So
 * it does not depend on the order of threads. What threads still do after the first error does.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define FILES 65536
#define COUNTERS (1 << 20)

enum kind { OPEN, CREATE, READ, WRITE, SYNC, RENAME, LINK, REMOVE, MAP, FOLDER, STATUS, LIST, LOCK, CUT };
static const char *const names[] = { "open", "create", "read", "write", "sync",   "rename", "link",
                                     "remove", "map", "mkdir", "status", "list", "lock",   "cut" };

static _Atomic uint64_t of_file[FILES]; /* Hash of the path of an open file; 0 if it is not below the folder. */
static atomic_uint counters[COUNTERS];
static const char *folder, *log_path;
static size_t folder_length;
static uint64_t seed;
static unsigned hard, soft;

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t x = a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2));
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static unsigned number(const char *name) {
    const char *text = getenv(name);
    return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void begin(void) {
    log_path = getenv("FAULTS_LOG");
    seed = number("FAULTS_SEED");
    hard = number("FAULTS_HARD");
    soft = number("FAULTS_SOFT");
    const char *given = getenv("FAULTS_FOLDER");
    folder_length = given ? strlen(given) : 0;
    folder = given;
}

/* Hash of a path below the folder; 0 of others. A run has the time in its name: all records of runs count as one file. */
static uint64_t hash(const char *path) {
    if (!folder || !path || strncmp(path, folder, folder_length) != 0) return 0;
    uint64_t h = 1;
    for (const char *c = path + folder_length; *c; c++) {
        h = mix(h, (unsigned char)*c);
        if (strncmp(c, "/runs/", 6) == 0 && c[6]) return mix(h, 1) | 1;
    }
    return h | 1;
}

/* False for a call that means an open file. Rust asks with no path at all whether the system knows the call. */
static int is_named(const char *path) { return path && *path; }

static uint64_t opened(int file) {
    return file >= 0 && file < FILES ? atomic_load(&of_file[file]) : 0;
}

static void note(enum kind kind, uint64_t path, unsigned count, const char *what) {
    if (!log_path) return;
    int before = errno;
    char line[128];
    int length = snprintf(line, sizeof line, "%s %016llx %u %s\n", names[kind], (unsigned long long)path, count, what);
    long log = syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (log >= 0) {
        syscall(SYS_write, log, line, length);
        syscall(SYS_close, log);
    }
    errno = before;
}

static int error_of(enum kind kind, uint64_t h) {
    switch (kind) {
    case CREATE:
    case WRITE:
    case RENAME:
    case LINK:
    case FOLDER: return h & 1 ? ENOSPC : EIO;
    case MAP: return ENOMEM;
    case LOCK: return ENOLCK;
    default: return EIO;
    }
}

/* Calls that a signal may interrupt on some file systems. */
static int interruptible(enum kind kind) {
    return kind == OPEN || kind == CREATE || kind == READ || kind == WRITE || kind == SYNC || kind == CUT;
}

enum fault { NONE, FAILED, SHORT };

/* Decides about a call: an error, which is then in errno; fewer bytes; a pause; or nothing. */
static enum fault fault(enum kind kind, uint64_t path) {
    if (!path) return NONE;
    uint64_t call = mix(path, kind);
    unsigned count = atomic_fetch_add(&counters[call % COUNTERS], 1);
    uint64_t h = mix(mix(seed, call), count);
    unsigned place = h % 1000000;
    h >>= 32;
    if (place < (kind == OPEN || kind == READ || kind == STATUS ? hard : 10 * hard)) {
        errno = error_of(kind, h);
        note(kind, path, count, strerrorname_np(errno));
        return FAILED;
    }
    if (place >= 1000000 - soft) {
        if ((kind == READ || kind == WRITE) && h % 3 == 0) {
            note(kind, path, count, "short");
            return SHORT;
        }
        if (interruptible(kind) && h % 3 == 1) {
            errno = EINTR;
            note(kind, path, count, "interrupted");
            return FAILED;
        }
        note(kind, path, count, "slow");
        struct timespec pause = { 0, (long)(h % 5000000) };
        nanosleep(&pause, NULL);
    }
    return NONE;
}

static size_t shorter(size_t length) { return length > 1 ? length / 2 : length; }

static int track(long file, uint64_t path) {
    if (file >= 0 && file < FILES) atomic_store(&of_file[file], path);
    return (int)file;
}

static int open_at(int at, const char *path, int flags, unsigned mode) {
    uint64_t h = hash(path);
    if (fault(flags & O_CREAT ? CREATE : OPEN, h) == FAILED) return -1;
    return track(syscall(SYS_openat, at, path, flags, mode), h);
}

#define OPEN_MODE(flags, mode)                      \
    unsigned mode = 0;                              \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {        \
        va_list more;                               \
        va_start(more, flags);                      \
        mode = va_arg(more, unsigned);              \
        va_end(more);                               \
    }

int open(const char *path, int flags, ...) {
    OPEN_MODE(flags, mode)
    return open_at(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    OPEN_MODE(flags, mode)
    return open_at(AT_FDCWD, path, flags, mode);
}
int openat(int at, const char *path, int flags, ...) {
    OPEN_MODE(flags, mode)
    return open_at(at, path, flags, mode);
}
int openat64(int at, const char *path, int flags, ...) {
    OPEN_MODE(flags, mode)
    return open_at(at, path, flags, mode);
}

int close(int file) {
    track(file, 0);
    return (int)syscall(SYS_close, file);
}

ssize_t read(int file, void *bytes, size_t length) {
    enum fault f = fault(READ, opened(file));
    if (f == FAILED) return -1;
    return syscall(SYS_read, file, bytes, f == SHORT ? shorter(length) : length);
}
ssize_t pread64(int file, void *bytes, size_t length, off64_t at) {
    enum fault f = fault(READ, opened(file));
    if (f == FAILED) return -1;
    return syscall(SYS_pread64, file, bytes, f == SHORT ? shorter(length) : length, at);
}
ssize_t pread(int file, void *bytes, size_t length, off_t at) { return pread64(file, bytes, length, at); }

ssize_t write(int file, const void *bytes, size_t length) {
    enum fault f = fault(WRITE, opened(file));
    if (f == FAILED) return -1;
    return syscall(SYS_write, file, bytes, f == SHORT ? shorter(length) : length);
}
ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t at) {
    enum fault f = fault(WRITE, opened(file));
    if (f == FAILED) return -1;
    return syscall(SYS_pwrite64, file, bytes, f == SHORT ? shorter(length) : length, at);
}
ssize_t pwrite(int file, const void *bytes, size_t length, off_t at) { return pwrite64(file, bytes, length, at); }
ssize_t writev(int file, const struct iovec *pieces, int count) {
    enum fault f = fault(WRITE, opened(file));
    if (f == FAILED) return -1;
    return syscall(SYS_writev, file, pieces, f == SHORT && count > 1 ? count / 2 : count);
}

int fsync(int file) { return fault(SYNC, opened(file)) == FAILED ? -1 : (int)syscall(SYS_fsync, file); }
int fdatasync(int file) { return fault(SYNC, opened(file)) == FAILED ? -1 : (int)syscall(SYS_fdatasync, file); }
int flock(int file, int operation) {
    return fault(LOCK, opened(file)) == FAILED ? -1 : (int)syscall(SYS_flock, file, operation);
}
int ftruncate64(int file, off64_t length) {
    return fault(CUT, opened(file)) == FAILED ? -1 : (int)syscall(SYS_ftruncate, file, length);
}
int ftruncate(int file, off_t length) { return ftruncate64(file, length); }

int rename(const char *from, const char *to) {
    if (fault(RENAME, hash(to)) == FAILED) return -1;
    return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}
int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    if (fault(LINK, hash(to)) == FAILED) return -1;
    return (int)syscall(SYS_linkat, from_at, from, to_at, to, flags);
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
int unlink(const char *path) {
    if (fault(REMOVE, hash(path)) == FAILED) return -1;
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}
int unlinkat(int at, const char *path, int flags) {
    if (fault(REMOVE, hash(path)) == FAILED) return -1;
    return (int)syscall(SYS_unlinkat, at, path, flags);
}
int mkdir(const char *path, mode_t mode) {
    if (fault(FOLDER, hash(path)) == FAILED) return -1;
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int statx(int at, const char *restrict path, int flags, unsigned mask, struct statx *restrict status) {
    if (fault(STATUS, is_named(path) ? hash(path) : opened(at)) == FAILED) return -1;
    return (int)syscall(SYS_statx, at, path, flags, mask, status);
}

void *mmap64(void *place, size_t length, int protection, int flags, int file, off64_t at) {
    if (!(flags & MAP_ANONYMOUS) && fault(MAP, opened(file)) == FAILED) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, place, length, protection, flags, file, at);
}
void *mmap(void *place, size_t length, int protection, int flags, int file, off_t at) {
    return mmap64(place, length, protection, flags, file, at);
}

DIR *opendir(const char *path) {
    static DIR *(*next)(const char *);
    if (!next) next = (DIR * (*)(const char *)) dlsym(RTLD_NEXT, "opendir");
    return fault(LIST, hash(path)) == FAILED ? NULL : next(path);
}
