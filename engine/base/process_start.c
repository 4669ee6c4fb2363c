// See process_start.h. Called from main, before there are threads.
#include "base/process_start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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
