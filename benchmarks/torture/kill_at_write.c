/* Ends the whole process group by SIGKILL right before the n-th system call that changes a file below a folder.

   Loaded with LD_PRELOAD; `arm` sets the folder and n, and `count` tells how many such calls there have been. All
   processes that inherit the environment share the counter, which lies in the file that KILL_COUNTER names. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct shared { _Atomic long calls; _Atomic long fatal; char folder[4096]; };
static struct shared *state;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("KILL_COUNTER");
    int file = name ? open(name, O_RDWR) : -1;
    if (file < 0) return;
    state = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (state == MAP_FAILED) state = NULL;
}

void arm(const char *folder, long fatal) {
    if (!state) return;
    strncpy(state->folder, folder, sizeof state->folder - 1);
    atomic_store(&state->calls, 0);
    atomic_store(&state->fatal, fatal);
}

long count(void) { return state ? atomic_load(&state->calls) : -1; }

static void seen(const char *path) {
    if (!state || !state->folder[0] || strncmp(path, state->folder, strlen(state->folder))) return;
    if (atomic_fetch_add(&state->calls, 1) + 1 == atomic_load(&state->fatal)) {
        kill(0, SIGKILL);
        for (;;) pause();
    }
}

static void seen_file(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length > 0) { path[length] = 0; seen(path); }
}

/* A name below an open folder; AT_FDCWD and whole paths are as they are. */
static void seen_at(int folder, const char *name) {
    char link[64], path[8192];
    if (folder == AT_FDCWD || name[0] == '/') { seen(name); return; }
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t length = readlink(link, path, 4095);
    if (length <= 0) return;
    snprintf(path + length, sizeof path - length, "/%s", name);
    seen(path);
}

#define REAL(result, name, ...) static result (*real)(__VA_ARGS__); if (!real) real = dlsym(RTLD_NEXT, name)

ssize_t write(int file, const void *from, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    seen_file(file);
    return real(file, from, size);
}

int fsync(int file) {
    REAL(int, "fsync", int);
    seen_file(file);
    return real(file);
}

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    seen(to);
    return real(from, to);
}

int link(const char *from, const char *to) {
    REAL(int, "link", const char *, const char *);
    seen(to);
    return real(from, to);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    REAL(int, "linkat", int, const char *, int, const char *, int);
    seen_at(to_folder, to);
    return real(from_folder, from, to_folder, to, flags);
}

int unlink(const char *path) {
    REAL(int, "unlink", const char *);
    seen(path);
    return real(path);
}

int unlinkat(int folder, const char *path, int flags) {
    REAL(int, "unlinkat", int, const char *, int);
    seen_at(folder, path);
    return real(folder, path, flags);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    REAL(int, "renameat", int, const char *, int, const char *);
    seen_at(to_folder, to);
    return real(from_folder, from, to_folder, to);
}

int mkdirat(int folder, const char *path, mode_t mode) {
    REAL(int, "mkdirat", int, const char *, mode_t);
    seen_at(folder, path);
    return real(folder, path, mode);
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t);
    seen(path);
    return real(path, mode);
}

int open64(const char *path, int flags, ...) {
    static int (*real)(const char *, int, ...);
    if (!real) real = dlsym(RTLD_NEXT, "open64");
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (flags & (O_CREAT | O_TRUNC)) seen(path);
    return real(path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
    static int (*real)(int, const char *, int, ...);
    if (!real) real = dlsym(RTLD_NEXT, "openat64");
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (flags & (O_CREAT | O_TRUNC)) seen_at(folder, path);
    return real(folder, path, flags, mode);
}
