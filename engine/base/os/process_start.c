// What every program's main does first, before there are threads. Descriptors 0, 1 and 2 are opened
// when whoever started the program closed them: otherwise the first file or socket would get such a
// number, and be written to as output. SIGXFSZ is ignored, so that a limit on the size of files is
// an error of write() and ends no process. And --version, the same for all programs.
#include "base/os/process_start.h"

#include "base/version.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void base_process_start(void)
{
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
