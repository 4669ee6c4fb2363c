// A wall clock that a test moves while a program runs: preloaded into it. The file that WRONG_CLOCK
// names holds one int64_t, seconds that are added to CLOCK_REALTIME; it is mapped, so that writing
// it is enough. The steady clocks stay as they are.
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *moved_s;

__attribute__((constructor)) static void wrong_clock_begin(void)
{
    const char *path = getenv("WRONG_CLOCK");
    int file = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) {
        return;
    }
    void *map = mmap(NULL, sizeof(*moved_s), PROT_READ, MAP_SHARED, file, 0);
    moved_s = map != MAP_FAILED ? map : NULL;
    close(file);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t which, struct timespec *out)
{
    long result = syscall(SYS_clock_gettime, which, out);
    if (result == 0 && moved_s != NULL &&
        (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) {
        out->tv_sec += (time_t)*moved_s;
    }
    return (int)result;
}

__attribute__((visibility("default"))) time_t time(time_t *out)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict out,
                                                        void *restrict zone)
{
    struct timespec now = {0, 0};
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return result;
}
