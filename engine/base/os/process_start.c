// What every program's main does first, before there are threads. Descriptors 0, 1 and 2 are opened
// when whoever started the program closed them: otherwise the first file or socket would get such a
// number, and be written to as output. SIGXFSZ is ignored, so that a limit on the size of files is
// an error of write() and ends no process. And --version, the same for all programs; and the look
// at standard output when a program ends, wherever it calls exit (argp does for --help).
#include "base/os/process_start.h"

#include "base/version.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The other statuses say more than this would.
static void output_end(int status, void *lost)
{
    bool failed = fflush(stdout) != 0;
    if ((failed || ferror(stdout)) && status == EXIT_SUCCESS) {
        (void)fprintf(stderr, "%s: standard output: cannot write\n", program_invocation_short_name);
        (void)fflush(stderr);
        _exit((int)(intptr_t)lost);
    }
}

void base_process_start(int lost)
{
    (void)on_exit(output_end, (void *)(intptr_t)lost);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
            (void)open("/dev/null", O_RDWR); // the lowest number that is free
        }
    }
    (void)signal(SIGXFSZ, SIG_IGN);
}

bool base_process_version(int argc, char **argv, const char *name)
{
    bool asked = argc == 2 && strcmp(argv[1], "--version") == 0;
    if (asked) {
        (void)printf("%s " BASE_PRODUCT_VERSION "\n", name);
    }
    return asked;
}
