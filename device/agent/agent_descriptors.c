// The limit of open descriptors, looked at once when the agent starts: device_agent.c calls it in
// main, before there is a loop or a port. A limit below AGENT_DESCRIPTORS_MIN is raised as far as
// the hard limit allows; where that is too low the agent does not start, since it would check in
// and pull and then be unable to run anything.
#include "agent_descriptors.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

enum base_status agent_descriptors_ready(struct base_error *error)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return base_error_set(error, BASE_ERR_IO, "limit of descriptors: %s", strerror(errno));
    }
    if (limit.rlim_cur >= AGENT_DESCRIPTORS_MIN) {
        return BASE_OK;
    }
    struct rlimit wanted = {.rlim_cur = AGENT_DESCRIPTORS_MIN, .rlim_max = limit.rlim_max};
    if (limit.rlim_max >= AGENT_DESCRIPTORS_MIN && setrlimit(RLIMIT_NOFILE, &wanted) == 0) {
        return BASE_OK;
    }
    return base_error_set(error, BASE_ERR_LIMIT,
                          "%llu file descriptors are too few, %u are needed: raise the limit "
                          "(ulimit -n, LimitNOFILE=)",
                          (unsigned long long)limit.rlim_max, AGENT_DESCRIPTORS_MIN);
}
