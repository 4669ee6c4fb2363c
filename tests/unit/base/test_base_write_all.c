// base_write_all: pieces and interruptions end in the whole, and what the system refuses is told.
#include "base/os/write_all.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define WHOLE (1u << 20)

struct reader {
    int fd;
    uint8_t *bytes;
    size_t got;
};

static void *read_slowly(void *arg)
{
    struct reader *reader = arg;
    sigset_t all;
    ssize_t step = 1;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL); // the writer is who is interrupted
    while (step > 0 && reader->got < WHOLE) {
        struct timespec moment = {0, 200000};
        nanosleep(&moment, NULL);
        step = read(reader->fd, reader->bytes + reader->got, 30000);
        reader->got += step > 0 ? (size_t)step : 0;
    }
    return NULL;
}

static _Atomic unsigned interruptions;

static void interrupt(int number)
{
    (void)number;
    interruptions++;
}

static void test_interrupted(void **state)
{
    (void)state;
    int ends[2];
    pthread_t thread;
    uint8_t *bytes = malloc(WHOLE);
    struct reader reader = {.bytes = malloc(WHOLE)};
    struct sigaction action = {.sa_handler = interrupt}; // without SA_RESTART
    const struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    assert_non_null(bytes);
    assert_non_null(reader.bytes);
    for (uint32_t i = 0; i < WHOLE; i++) {
        bytes[i] = (uint8_t)(i * 2654435761u >> 24);
    }
    assert_int_equal(pipe(ends), 0);
    reader.fd = ends[0];
    assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    assert_int_equal(base_write_all(ends[1], bytes, WHOLE), BASE_OK);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    close(ends[1]);
    pthread_join(thread, NULL);
    close(ends[0]);
    assert_int_equal(reader.got, WHOLE);
    assert_memory_equal(reader.bytes, bytes, WHOLE);
    assert_true(interruptions > 0);
    free(reader.bytes);
    free(bytes);
}

static void test_refused(void **state)
{
    (void)state;
    char path[] = "/tmp/walle-write-XXXXXX";
    static const uint8_t bytes[300];
    struct rlimit before, small;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100;
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum base_status status = base_write_all(fd, bytes, sizeof(bytes));
    int error = errno;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, BASE_ERR_FULL);
    assert_int_equal(error, EFBIG);
    assert_int_equal(lseek(fd, 0, SEEK_END), 100); // what was taken before stays
    close(fd);
    assert_int_equal(base_write_all(fd, bytes, sizeof(bytes)), BASE_ERR_IO);
    assert_int_equal(base_write_all(fd, bytes, 0), BASE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
