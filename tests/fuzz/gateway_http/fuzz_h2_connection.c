// Fuzz target of a whole connection: any bytes behind the client's preface, over a socket pair into
// a worker with the stub core. The connection ends or goes on; nothing leaks, nothing hangs.
#include "connection_fuzz.h"
#include "fuzz_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    connection_fuzz_run(data, size);
    return 0;
}
