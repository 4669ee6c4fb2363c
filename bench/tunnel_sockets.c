// Socket options of the tunnel's peers, as ours has them. Called by the peers' load generators on
// each connection's thread, and by tunnel_tune on a server's listening sockets.
#include "tunnel_sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#define CLIENT_RTO_MIN_US   50000
#define CLIENT_UNSENT_BYTES (64 * 1024)
#define CLIENT_USER_MS      60000
#define CLIENT_PAUSE_US     100000
#define SERVER_RTO_MIN_US   20000
#define SERVER_BUFFER_BYTES (256 * 1024) // limits.socket_buffer_bytes
#define SERVER_UNSENT_BYTES (128 * 1024)
#define SERVER_USER_MS      30000 // timeouts.write_ms
#define FDS_MAX             1024

static bool set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof(value)) == 0;
}

void tunnel_sockets_client(int fd, bool phone)
{
    (void)set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    (void)set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    (void)set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, CLIENT_UNSENT_BYTES);
    (void)set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, CLIENT_USER_MS);
    if (!phone) {
        (void)set(fd, IPPROTO_TCP, TCP_RTO_MIN_US, CLIENT_RTO_MIN_US);
    }
}

void tunnel_sockets_upload(int fd, uint64_t silent_us)
{
    if (silent_us > CLIENT_PAUSE_US) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "bbr", 3);
    }
    (void)set(fd, IPPROTO_TCP, TCP_QUICKACK, 1);
}

bool tunnel_sockets_server(int fd)
{
    bool common = set(fd, IPPROTO_TCP, TCP_NODELAY, 1) &&
                  set(fd, SOL_SOCKET, SO_SNDBUF, SERVER_BUFFER_BYTES) &&
                  set(fd, SOL_SOCKET, SO_RCVBUF, SERVER_BUFFER_BYTES) &&
                  set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, SERVER_UNSENT_BYTES) &&
                  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, SERVER_USER_MS);
    // Not in older kernels: ours goes without it there, too.
    (void)set(fd, IPPROTO_TCP, TCP_RTO_MIN_US, SERVER_RTO_MIN_US);
    return common;
}

int tunnel_sockets_find(uint16_t local_port)
{
    for (int fd = 0; fd < FDS_MAX; fd++) {
        union {
            struct sockaddr any;
            struct sockaddr_in v4;
        } address = {.any = {.sa_family = AF_UNSPEC}};
        socklen_t size = sizeof(address);
        if (getsockname(fd, &address.any, &size) == 0 && address.any.sa_family == AF_INET &&
            ntohs(address.v4.sin_port) == local_port) {
            return fd;
        }
    }
    return -1;
}
