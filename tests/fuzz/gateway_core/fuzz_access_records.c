// Stored tokens, credentials, audit entries and kept answers, as a damaged disk may hand them back:
// they are refused or read, and what is read can be written again.
//
// Input: u8 which, then the bytes.
#include "fuzz_target.h"

#include "svc/access/answers.h"
#include "svc/access/audit.h"
#include "svc/access/credentials.h"
#include "svc/access/operators.h"

#include <stdlib.h>
#include <string.h>

static void same(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
    if (a_size != b_size || memcmp(a, b, a_size) != 0) {
        abort();
    }
}

static void fuzz_token(const uint8_t *data, size_t size)
{
    struct gw_token token;
    uint8_t row[GW_TOKEN_ROW_MAX];
    if (gw_token_decode(data, size, &token) == BASE_OK) {
        same(data, size, row, gw_token_encode(&token, row));
    }
}

static void fuzz_credential(const uint8_t *data, size_t size)
{
    struct gw_credential credential;
    uint8_t row[GW_CREDENTIAL_ROW_MAX];
    if (gw_credential_decode(data, size, &credential) == BASE_OK) {
        same(data, size, row, gw_credential_encode(&credential, row));
    }
}

static void fuzz_answer(const uint8_t *data, size_t size)
{
    static uint8_t row[GW_ANSWER_BODY_MAX + 256];
    struct gw_answer answer;
    size_t written = 0;
    if (gw_answer_decode(data, size, &answer) == BASE_OK) {
        if (gw_answer_encode(&answer, row, sizeof(row), &written) != BASE_OK) {
            abort();
        }
        same(data, size, row, written);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_audit_view view;
    if (size == 0) {
        return 0;
    }
    switch (data[0] % 4) {
    case 0:
        fuzz_token(data + 1, size - 1);
        break;
    case 1:
        fuzz_credential(data + 1, size - 1);
        break;
    case 2:
        fuzz_answer(data + 1, size - 1);
        break;
    default:
        if (gw_audit_decode(data + 1, size - 1, &view) == BASE_OK && view.text.size > size - 1) {
            abort();
        }
        break;
    }
    return 0;
}
