/*
 * What lies below the store: preloaded into the real process, it watches the calls that reach the database's files
 * and the provider's port, numbers them, writes them down, and can stop the process at one of them or make it fail.
 *
 *   ONCEGATE_BELOW_DATABASE  absolute path of the database; beside it lie -wal, -journal and -lock. The shared memory
 *                            of the log (-shm) is made anew after a power cut and is not watched.
 *   ONCEGATE_BELOW_PORT      the provider's port
 *   ONCEGATE_BELOW_LOG       where the calls are written down; not set: nowhere
 *   ONCEGATE_BELOW_BRIEF     set: without what was written
 *   ONCEGATE_BELOW_PLAN      NUMBER:WHAT, WHAT is kill, after, short, enospc, enospc+, eio or eio+
 *
 * One mutex is held over each watched call, so that the order in the log is the order in which they were made. Only
 * what glibc exports is caught; src/recording.rs compares what was written down with the files, so that a
 * call that slips through is noticed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS 65536
#define DATA_MAX (1u << 20)

/* The same numbers stand in src/journal.rs. */
enum kind { START = 1, OPEN, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, CLOSE, CONNECT, SEND, ANSWER, FAULT };
enum file { NONE, DATABASE, WAL, JOURNAL, LOCK, FOLDER, PROVIDER, AGENT };
enum fate { PASS, KILL, AFTER, SHORT, FAIL };

struct entry {
    uint32_t kind, file;
    int32_t pid, fd;
    int64_t number, offset, result;
    uint32_t flags, length;
};

static const char *const suffixes[] = { [DATABASE] = "", [WAL] = "-wal", [JOURNAL] = "-journal", [LOCK] = "-lock" };

static struct {
    int (*open)(const char *, int, ...);
    int (*openat)(int, const char *, int, ...);
    ssize_t (*write)(int, const void *, size_t);
    ssize_t (*writev)(int, const struct iovec *, int);
    ssize_t (*pwrite)(int, const void *, size_t, off_t);
    int (*ftruncate)(int, off_t);
    int (*fsync)(int);
    int (*fdatasync)(int);
    int (*rename)(const char *, const char *);
    int (*unlink)(const char *);
    int (*close)(int);
    int (*connect)(int, const struct sockaddr *, socklen_t);
    int (*accept4)(int, struct sockaddr *, socklen_t *, int);
    int (*accept)(int, struct sockaddr *, socklen_t *);
    ssize_t (*send)(int, const void *, size_t, int);
    ssize_t (*sendto)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    ssize_t (*sendmsg)(int, const struct msghdr *, int);
} real;

static struct {
    const char *database;
    size_t database_length, folder_length;
    int port, log, brief;
    long at;
    enum fate fate;
    int sticky, code, on_disk;
} setting = { .log = -1 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static unsigned char watched[FDS];
static long calls;

static void note(enum kind kind, enum file file, int fd, off_t offset, long result, unsigned flags,
                 const struct iovec *data, int count);

static void plan(const char *text)
{
    static const struct { const char *word; enum fate fate; int code; } words[] = {
        { "kill", KILL, 0 }, { "after", AFTER, 0 }, { "short", SHORT, 0 },
        { "enospc", FAIL, ENOSPC }, { "eio", FAIL, EIO },
    };
    const char *word = strchr(text, ':');
    if (!word)
        return;
    setting.at = strtol(text, NULL, 10);
    word++;
    size_t length = strcspn(word, "+");
    setting.sticky = word[length] == '+';
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == length && !strncmp(word, words[i].word, length)) {
            setting.fate = words[i].fate;
            setting.code = words[i].code;
        }
}

static void begin(void)
{
#define FIND(name, symbol) *(void **)&real.name = dlsym(RTLD_NEXT, symbol)
    FIND(open, "open64");
    FIND(openat, "openat64");
    FIND(write, "write");
    FIND(writev, "writev");
    FIND(pwrite, "pwrite64");
    FIND(ftruncate, "ftruncate64");
    FIND(fsync, "fsync");
    FIND(fdatasync, "fdatasync");
    FIND(rename, "rename");
    FIND(unlink, "unlink");
    FIND(close, "close");
    FIND(connect, "connect");
    FIND(accept4, "accept4");
    FIND(accept, "accept");
    FIND(send, "send");
    FIND(sendto, "sendto");
    FIND(sendmsg, "sendmsg");
    const char *text = getenv("ONCEGATE_BELOW_DATABASE");
    if (text && *text == '/') {
        setting.database = text;
        setting.database_length = strlen(text);
        setting.folder_length = (size_t)(strrchr(text, '/') - text);
    }
    if ((text = getenv("ONCEGATE_BELOW_PORT")))
        setting.port = atoi(text);
    if ((text = getenv("ONCEGATE_BELOW_PLAN")))
        plan(text);
    setting.brief = getenv("ONCEGATE_BELOW_BRIEF") != NULL;
    if ((text = getenv("ONCEGATE_BELOW_LOG"))) {
        setting.log = real.open(text, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (setting.log < 0)
            abort();
        note(START, NONE, -1, 0, 0, 0, NULL, 0);
    }
}

__attribute__((constructor)) static void ready(void) { pthread_once(&once, begin); }

static void note(enum kind kind, enum file file, int fd, off_t offset, long result, unsigned flags,
                 const struct iovec *data, int count)
{
    if (setting.log < 0)
        return;
    struct iovec parts[16] = { { 0 } };
    struct entry entry = { .kind = kind, .file = file, .pid = getpid(), .fd = fd, .number = calls,
                           .offset = offset, .result = result, .flags = flags };
    int used = 1;
    if (!setting.brief)
        for (int i = 0; i < count && used < 16 && entry.length + data[i].iov_len <= DATA_MAX; i++) {
            parts[used++] = data[i];
            entry.length += (uint32_t)data[i].iov_len;
        }
    parts[0].iov_base = &entry;
    parts[0].iov_len = sizeof entry;
    /* A log with a hole proves nothing. */
    if (real.writev(setting.log, parts, used) != (ssize_t)(sizeof entry + entry.length))
        abort();
}

static enum file named(const char *path)
{
    if (!path || !setting.database)
        return NONE;
    if (strlen(path) == setting.folder_length && !strncmp(path, setting.database, setting.folder_length))
        return FOLDER;
    if (strncmp(path, setting.database, setting.database_length))
        return NONE;
    for (enum file file = DATABASE; file <= LOCK; file++)
        if (!strcmp(path + setting.database_length, suffixes[file]))
            return file;
    return NONE;
}

static enum file of(int fd) { return fd >= 0 && fd < FDS ? watched[fd] : NONE; }

static void watch(int fd, enum file file)
{
    if (fd >= 0 && fd < FDS)
        watched[fd] = (unsigned char)file;
}

static _Noreturn void stop(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* Takes the turn, and says what happens to this call. */
static enum fate enter(enum file file)
{
    pthread_mutex_lock(&turn);
    long number = ++calls;
    int on_disk = file < PROVIDER;
    enum fate fate = PASS;
    if (setting.fate != PASS && number == setting.at) {
        setting.on_disk = on_disk;
        fate = setting.fate;
    } else if (setting.sticky && number > setting.at && on_disk == setting.on_disk) {
        fate = FAIL;
    }
    if (fate == KILL)
        stop();
    if (fate == FAIL) {
        note(FAULT, file, -1, 0, 0, 0, NULL, 0);
        errno = setting.code;
    }
    return fate;
}

static void leave(enum fate fate)
{
    if (fate == AFTER || fate == SHORT)
        stop();
    pthread_mutex_unlock(&turn);
}

/* What was written is put down; half of it only, when the process is to stop in the middle. */
static ssize_t carried(int fd, enum file file, enum fate fate, off_t offset, const struct iovec *data, int count,
                       ssize_t wrote)
{
    int saved = errno;
    if (wrote > 0) {
        struct iovec parts[15];
        size_t left = (size_t)wrote;
        int used = 0;
        for (; used < count && used < 15 && left; used++) {
            parts[used] = data[used];
            if (parts[used].iov_len > left)
                parts[used].iov_len = left;
            left -= parts[used].iov_len;
        }
        note(file == AGENT ? ANSWER : file == PROVIDER ? SEND : WRITE, file, fd, offset, wrote, 0, parts, used);
    }
    leave(fate);
    errno = saved;
    return wrote;
}

static enum fate turn_for(enum file file)
{
    if (file != AGENT)
        return enter(file);
    /* Answers are written down to know what was shown; no fault is planned at them. */
    pthread_mutex_lock(&turn);
    return PASS;
}

ssize_t write(int fd, const void *bytes, size_t length)
{
    ready();
    enum file file = of(fd);
    if (file == NONE)
        return real.write(fd, bytes, length);
    struct iovec data = { (void *)bytes, length };
    enum fate fate = turn_for(file);
    off_t offset = file < PROVIDER ? lseek(fd, 0, SEEK_CUR) : 0;
    ssize_t wrote = fate == FAIL ? -1 : real.write(fd, bytes, fate == SHORT ? length / 2 : length);
    return carried(fd, file, fate, offset, &data, 1, wrote);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset)
{
    ready();
    enum file file = of(fd);
    if (file == NONE)
        return real.pwrite(fd, bytes, length, offset);
    struct iovec data = { (void *)bytes, length };
    enum fate fate = turn_for(file);
    ssize_t wrote = fate == FAIL ? -1 : real.pwrite(fd, bytes, fate == SHORT ? length / 2 : length, offset);
    return carried(fd, file, fate, offset, &data, 1, wrote);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) { return pwrite64(fd, bytes, length, offset); }

ssize_t writev(int fd, const struct iovec *data, int count)
{
    ready();
    enum file file = of(fd);
    if (file == NONE)
        return real.writev(fd, data, count);
    enum fate fate = turn_for(file);
    off_t offset = file < PROVIDER ? lseek(fd, 0, SEEK_CUR) : 0;
    ssize_t wrote = fate == FAIL    ? -1
                    : fate == SHORT ? real.write(fd, data[0].iov_base, data[0].iov_len / 2)
                                    : real.writev(fd, data, count);
    return carried(fd, file, fate, offset, data, count, wrote);
}

ssize_t sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t size)
{
    ready();
    enum file file = of(fd);
    if (file == NONE)
        return real.sendto(fd, bytes, length, flags, to, size);
    struct iovec data = { (void *)bytes, length };
    enum fate fate = turn_for(file);
    ssize_t wrote = fate == FAIL ? -1 : real.sendto(fd, bytes, fate == SHORT ? length / 2 : length, flags, to, size);
    return carried(fd, file, fate, 0, &data, 1, wrote);
}

ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
    return sendto(fd, bytes, length, flags, NULL, 0);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    ready();
    enum file file = of(fd);
    if (file == NONE)
        return real.sendmsg(fd, message, flags);
    const struct iovec *data = message->msg_iov;
    enum fate fate = turn_for(file);
    ssize_t wrote = fate == FAIL    ? -1
                    : fate == SHORT ? real.send(fd, data[0].iov_base, data[0].iov_len / 2, flags)
                                    : real.sendmsg(fd, message, flags);
    return carried(fd, file, fate, 0, data, (int)message->msg_iovlen, wrote);
}

/* A call without data: `result` is what it gave. */
static int done(enum kind kind, enum file file, int fd, off_t offset, int result, unsigned flags, enum fate fate)
{
    int saved = errno;
    if (result >= 0)
        note(kind, file, fd, offset, result, flags, NULL, 0);
    leave(fate);
    errno = saved;
    return result;
}

static int opened(int at, const char *path, int flags, mode_t mode)
{
    ready();
    enum file file = named(path);
    if (file == NONE) {
        int fd = real.openat(at, path, flags, mode);
        watch(fd, NONE);
        return fd;
    }
    enum fate fate = enter(file);
    int fd = -1;
    unsigned made = 0;
    if (fate != FAIL && fate != SHORT) {
        made = access(path, F_OK) != 0;
        fd = real.openat(at, path, flags, mode);
        watch(fd, file);
    }
    return done(OPEN, file, fd, 0, fd, made | (flags & O_TRUNC ? 2u : 0u), fate);
}

#define MODE(flags)                                                                                                  \
    mode_t mode = 0;                                                                                                 \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                                           \
        va_list rest;                                                                                                \
        va_start(rest, flags);                                                                                       \
        mode = va_arg(rest, mode_t);                                                                                 \
        va_end(rest);                                                                                                \
    }

int open(const char *path, int flags, ...)
{
    MODE(flags)
    return opened(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    MODE(flags)
    return opened(AT_FDCWD, path, flags, mode);
}

int openat(int at, const char *path, int flags, ...)
{
    MODE(flags)
    return opened(at, path, flags, mode);
}

int openat64(int at, const char *path, int flags, ...)
{
    MODE(flags)
    return opened(at, path, flags, mode);
}

int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

int ftruncate64(int fd, off64_t length)
{
    ready();
    enum file file = of(fd);
    if (file == NONE)
        return real.ftruncate(fd, length);
    enum fate fate = enter(file);
    int result = fate == FAIL || fate == SHORT ? -1 : real.ftruncate(fd, length);
    return done(TRUNCATE, file, fd, length, result, 0, fate);
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

static int synced(int fd, int (*sync)(int))
{
    enum file file = of(fd);
    if (file == NONE)
        return sync(fd);
    enum fate fate = enter(file);
    int result = fate == FAIL || fate == SHORT ? -1 : sync(fd);
    return done(SYNC, file, fd, 0, result, 0, fate);
}

int fsync(int fd)
{
    ready();
    return synced(fd, real.fsync);
}

int fdatasync(int fd)
{
    ready();
    return synced(fd, real.fdatasync);
}

int unlink(const char *path)
{
    ready();
    enum file file = named(path);
    if (file == NONE)
        return real.unlink(path);
    enum fate fate = enter(file);
    int result = fate == FAIL || fate == SHORT ? -1 : real.unlink(path);
    return done(UNLINK, file, -1, 0, result, 0, fate);
}

int rename(const char *from, const char *to)
{
    ready();
    enum file file = named(from), target = named(to);
    if (file == NONE && target == NONE)
        return real.rename(from, to);
    enum fate fate = enter(file);
    int result = fate == FAIL || fate == SHORT ? -1 : real.rename(from, to);
    return done(RENAME, file, -1, (off_t)target, result, 0, fate);
}

int close(int fd)
{
    ready();
    enum file file = of(fd);
    watch(fd, NONE);
    if (file == NONE || file == AGENT)
        return real.close(fd);
    enum fate fate = enter(file);
    /* Whatever close says, the descriptor is gone. */
    int result = fate == SHORT ? -1 : real.close(fd);
    done(CLOSE, file, fd, 0, result, 0, fate);
    if (fate == FAIL) {
        errno = setting.code;
        return -1;
    }
    return result;
}

static int port_of(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)address)->sin_port);
    if (address->sa_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
    return 0;
}

int connect(int fd, const struct sockaddr *address, socklen_t size)
{
    ready();
    if (!setting.port || port_of(address) != setting.port)
        return real.connect(fd, address, size);
    enum fate fate = enter(PROVIDER);
    int result = fate == FAIL || fate == SHORT ? -1 : real.connect(fd, address, size);
    int saved = errno;
    if (result == 0 || (fate != FAIL && saved == EINPROGRESS)) {
        watch(fd, PROVIDER);
        note(CONNECT, PROVIDER, fd, 0, 0, 0, NULL, 0);
    }
    leave(fate);
    errno = saved;
    return result;
}

static int accepted(int fd)
{
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    int family = fd >= 0 && !getsockname(fd, (struct sockaddr *)&own, &size) ? own.ss_family : AF_UNSPEC;
    watch(fd, setting.log >= 0 && (family == AF_INET || family == AF_INET6) ? AGENT : NONE);
    return fd;
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    ready();
    return accepted(real.accept4(fd, address, size, flags));
}

int accept(int fd, struct sockaddr *address, socklen_t *size)
{
    ready();
    return accepted(real.accept(fd, address, size));
}
