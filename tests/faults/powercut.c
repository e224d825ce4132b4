/* Preloaded into a process: writes down what it does to the files below POWERCUT_ROOT, in order, with what is written
   and when it was synced. powercut.py reads the journal and makes of it what a power cut would leave.

   A record is one write to a file opened for appending, so records of several processes do not mix: operation, lengths
   of path and data, offset, token, then path and data. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct __attribute__((packed)) header {
    uint8_t op;
    uint32_t path_length, data_length;
    int64_t offset;
    uint64_t token;
};

static const char *root;
static size_t root_length;
static int journal = -1;
static uint64_t tokens;

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) abort();
    return found;
}

#define REAL(type, name, ...) \
    static type (*next)(__VA_ARGS__); \
    if (next == NULL) next = (type (*)(__VA_ARGS__))real(#name)

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_journal(void) {
    root = getenv("POWERCUT_ROOT");
    const char *path = getenv("POWERCUT_JOURNAL");
    if (root == NULL || path == NULL) return;
    root_length = strlen(root);
    int handle = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    journal = fcntl(handle, F_DUPFD_CLOEXEC, 900); /* out of everybody's way */
    syscall(SYS_close, handle);
}

static int watched(const char *path) {
    pthread_once(&once, open_journal);
    return journal >= 0 && path != NULL && strncmp(path, root, root_length) == 0 &&
           (path[root_length] == '/' || path[root_length] == 0);
}

static void note(char op, const char *path, int64_t offset, uint64_t token, const void *data, size_t length) {
    int before = errno;
    struct header head = {(uint8_t)op, (uint32_t)strlen(path), (uint32_t)length, offset, token};
    struct iovec parts[3] = {{&head, sizeof head}, {(void *)path, strlen(path)}, {(void *)data, length}};
    size_t whole = sizeof head + strlen(path) + length;
    if (syscall(SYS_writev, journal, parts, 3) != (long)whole) abort();
    errno = before;
}

/* The name of an open file as it is now; a removed one has none. */
static const char *name_of(int fd, char *buffer) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, buffer, PATH_MAX - 1);
    if (length < 0) return NULL;
    buffer[length] = 0;
    if (!watched(buffer)) return NULL;
    struct stat found;
    if (fstat(fd, &found) != 0 || found.st_nlink == 0) return NULL;
    return buffer;
}

static const char *whole_path(int folder, const char *path, char *buffer) {
    if (path == NULL) return NULL;
    if (path[0] == '/') {
        snprintf(buffer, PATH_MAX, "%s", path);
    } else {
        char base[PATH_MAX], link[64];
        if (folder == AT_FDCWD) {
            if (getcwd(base, sizeof base) == NULL) return NULL;
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
            ssize_t length = readlink(link, base, sizeof base - 1);
            if (length < 0) return NULL;
            base[length] = 0;
        }
        if (snprintf(buffer, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) return NULL;
    }
    return watched(buffer) ? buffer : NULL;
}

/* --- opening ---------------------------------------------------------------------------------------------------- */

static int opened(int folder, const char *path, int flags, mode_t mode) {
    char buffer[PATH_MAX];
    int makes = flags & (O_CREAT | O_TRUNC);
    const char *name = makes && (flags & O_TMPFILE) != O_TMPFILE ? whole_path(folder, path, buffer) : NULL;
    int was_there = name != NULL && faccessat(folder, path, F_OK, 0) == 0;
    int fd = (int)syscall(SYS_openat, folder, path, flags, mode);
    if (fd >= 0 && name != NULL) {
        if (!was_there) note('C', name, 0, 0, NULL, 0);
        else if (flags & O_TRUNC) note('S', name, 0, 0, NULL, 0);
    }
    return fd;
}

#define MODE(last) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list more; \
        va_start(more, last); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    }

int open(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE(flags) return opened(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE(flags) return opened(folder, path, flags | O_LARGEFILE, mode); }
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

/* --- writing ---------------------------------------------------------------------------------------------------- */

ssize_t write(int fd, const void *data, size_t count) {
    char buffer[PATH_MAX];
    ssize_t done = syscall(SYS_write, fd, data, count);
    const char *name = done > 0 ? name_of(fd, buffer) : NULL;
    if (name != NULL) note('W', name, lseek(fd, 0, SEEK_CUR) - done, 0, data, (size_t)done);
    return done;
}

static ssize_t written_at(int fd, const void *data, size_t count, off_t offset) {
    char buffer[PATH_MAX];
    ssize_t done = syscall(SYS_pwrite64, fd, data, count, offset);
    const char *name = done > 0 ? name_of(fd, buffer) : NULL;
    if (name != NULL) note('W', name, offset, 0, data, (size_t)done);
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t count, off_t offset) { return written_at(fd, data, count, offset); }
ssize_t pwrite64(int fd, const void *data, size_t count, off64_t offset) { return written_at(fd, data, count, offset); }

/* What the kernel has put into the file by itself. */
static void note_back(int fd, off_t offset, ssize_t count) {
    char buffer[PATH_MAX], link[64];
    const char *name = count > 0 ? name_of(fd, buffer) : NULL;
    if (name == NULL) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int reader = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
    char *data = malloc((size_t)count);
    if (reader < 0 || data == NULL || pread(reader, data, (size_t)count, offset) != count) abort();
    note('W', name, offset, 0, data, (size_t)count);
    free(data);
    syscall(SYS_close, reader);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    ssize_t done = syscall(SYS_writev, fd, parts, count);
    if (done > 0) note_back(fd, lseek(fd, 0, SEEK_CUR) - done, done);
    return done;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    REAL(ssize_t, pwritev, int, const struct iovec *, int, off_t);
    ssize_t done = next(fd, parts, count, offset);
    note_back(fd, offset, done);
    return done;
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) { return pwritev(fd, parts, count, offset); }

static ssize_t sent(int to, int from, off_t *offset, size_t count) {
    ssize_t done = syscall(SYS_sendfile, to, from, offset, count);
    if (done > 0 && lseek(to, 0, SEEK_CUR) >= 0) note_back(to, lseek(to, 0, SEEK_CUR) - done, done);
    return done;
}

ssize_t sendfile(int to, int from, off_t *offset, size_t count) { return sent(to, from, offset, count); }
ssize_t sendfile64(int to, int from, off64_t *offset, size_t count) { return sent(to, from, offset, count); }

ssize_t copy_file_range(int from, off64_t *in, int to, off64_t *out, size_t count, unsigned int flags) {
    off64_t start = out != NULL ? *out : lseek(to, 0, SEEK_CUR);
    ssize_t done = syscall(SYS_copy_file_range, from, in, to, out, count, flags);
    note_back(to, start, done);
    return done;
}

static int cut(int fd, off_t length) {
    char buffer[PATH_MAX];
    int done = (int)syscall(SYS_ftruncate, fd, length);
    const char *name = done == 0 ? name_of(fd, buffer) : NULL;
    if (name != NULL) note('S', name, length, 0, NULL, 0);
    return done;
}

static int cut_path(const char *path, off_t length) {
    char buffer[PATH_MAX];
    int done = (int)syscall(SYS_truncate, path, length);
    const char *name = done == 0 ? whole_path(AT_FDCWD, path, buffer) : NULL;
    if (name != NULL) note('S', name, length, 0, NULL, 0);
    return done;
}

int truncate(const char *path, off_t length) { return cut_path(path, length); }
int truncate64(const char *path, off64_t length) { return cut_path(path, length); }
int ftruncate(int fd, off_t length) { return cut(fd, length); }
int ftruncate64(int fd, off64_t length) { return cut(fd, length); }

/* --- syncing: what was written before it began is on the disk when it has ended ----------------------------------- */

static int synced(int fd, long call) {
    char buffer[PATH_MAX];
    const char *name = name_of(fd, buffer);
    if (name == NULL) return (int)syscall(call, fd);
    uint64_t token = ((uint64_t)getpid() << 32) | __atomic_add_fetch(&tokens, 1, __ATOMIC_SEQ_CST);
    note('F', name, 0, token, NULL, 0);
    int done = (int)syscall(call, fd);
    if (done == 0) note('f', name, 0, token, NULL, 0);
    return done;
}

int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

/* --- names ------------------------------------------------------------------------------------------------------ */

static void note_names(char op, const char *path, const char *other) {
    note(op, path, 0, 0, other, other == NULL ? 0 : strlen(other));
}

static int renamed(int folder, const char *path, int other_folder, const char *other, unsigned int flags) {
    char one[PATH_MAX], two[PATH_MAX];
    const char *from = whole_path(folder, path, one), *to = whole_path(other_folder, other, two);
    int done = (int)syscall(SYS_renameat2, folder, path, other_folder, other, flags);
    if (done == 0 && from != NULL && to != NULL) note_names('R', from, to);
    return done;
}

int rename(const char *path, const char *other) { return renamed(AT_FDCWD, path, AT_FDCWD, other, 0); }
int renameat(int folder, const char *path, int there, const char *other) { return renamed(folder, path, there, other, 0); }
int renameat2(int folder, const char *path, int there, const char *other, unsigned int flags) {
    return renamed(folder, path, there, other, flags);
}

static int linked(int folder, const char *path, int other_folder, const char *other, int flags) {
    char one[PATH_MAX], two[PATH_MAX];
    const char *from = whole_path(folder, path, one), *to = whole_path(other_folder, other, two);
    int done = (int)syscall(SYS_linkat, folder, path, other_folder, other, flags);
    if (done == 0 && from != NULL && to != NULL) note_names('L', from, to);
    return done;
}

int link(const char *path, const char *other) { return linked(AT_FDCWD, path, AT_FDCWD, other, 0); }
int linkat(int folder, const char *path, int there, const char *other, int flags) {
    return linked(folder, path, there, other, flags);
}

static int removed(int folder, const char *path, int flags) {
    char buffer[PATH_MAX];
    const char *name = whole_path(folder, path, buffer);
    int done = (int)syscall(SYS_unlinkat, folder, path, flags);
    if (done == 0 && name != NULL) note_names('U', name, NULL);
    return done;
}

int unlink(const char *path) { return removed(AT_FDCWD, path, 0); }
int unlinkat(int folder, const char *path, int flags) { return removed(folder, path, flags); }
int rmdir(const char *path) { return removed(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) {
    int done = removed(AT_FDCWD, path, 0);
    return done != 0 && errno == EISDIR ? removed(AT_FDCWD, path, AT_REMOVEDIR) : done;
}

static int made(int folder, const char *path, mode_t mode) {
    char buffer[PATH_MAX];
    const char *name = whole_path(folder, path, buffer);
    int done = (int)syscall(SYS_mkdirat, folder, path, mode);
    if (done == 0 && name != NULL) note_names('D', name, NULL);
    return done;
}

int mkdir(const char *path, mode_t mode) { return made(AT_FDCWD, path, mode); }
int mkdirat(int folder, const char *path, mode_t mode) { return made(folder, path, mode); }
