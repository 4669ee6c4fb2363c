// tunnel_tune PID: sets the socket options of the gateway's tunnel on every listening TCP socket of
// a running server (tunnel_sockets.h), whatever that server can be told itself. The sockets are
// borrowed by pidfd_getfd; connections accepted from then on take the options over. Root. Prints
// how many it set; none is a failure.
#include "base/str.h"
#include "tunnel_sockets.h"

#include <dirent.h>
#include <netinet/in.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool listens(int fd)
{
    int on = 0;
    int protocol = 0;
    socklen_t size = sizeof(on);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &size) == 0 && on != 0 &&
           getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 &&
           protocol == IPPROTO_TCP;
}

static unsigned tune(int process, DIR *folder)
{
    unsigned count = 0;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        uint64_t number = 0;
        if (base_str_u64(base_str_of(entry->d_name), &number) != BASE_OK) {
            continue;
        }
        int fd = (int)syscall(SYS_pidfd_getfd, process, (int)number, 0);
        if (fd >= 0) {
            count += listens(fd) && tunnel_sockets_server(fd);
            close(fd);
        }
    }
    return count;
}

int main(int argc, char **argv)
{
    char path[64];
    uint64_t pid = 0;
    if (argc != 2 || base_str_u64(base_str_of(argv[1]), &pid) != BASE_OK) {
        fprintf(stderr, "usage: tunnel_tune PID\n");
        return 2;
    }
    (void)snprintf(path, sizeof(path), "/proc/%" PRIu64 "/fd", pid);
    int process = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    DIR *folder = opendir(path);
    unsigned count = process >= 0 && folder != NULL ? tune(process, folder) : 0;
    printf("%u\n", count);
    if (folder != NULL) {
        (void)closedir(folder);
    }
    if (process >= 0) {
        close(process);
    }
    return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
