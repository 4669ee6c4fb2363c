// Reads the subject of a peer's certificate: the device's id in CN, the tenant in O. Called by
// conn_io.c on the worker's thread, once a connection: when its handshake is complete, or with its
// first early data. OpenSSL has verified the certificate; a subject that is no device, or has a
// tenant that cannot be one, is nobody.
#include "http/tls/tls_identity.h"

#include "wire/digest.h"

#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

// The one value of a field of the subject. False: none, several, too long, or with a NUL in it.
static bool field(const X509_NAME *subject, int nid, char *out, size_t capacity, size_t *out_size)
{
    int at = X509_NAME_get_index_by_NID(subject, nid, -1);
    if (at < 0 || X509_NAME_get_index_by_NID(subject, nid, at) >= 0) {
        return false;
    }
    const ASN1_STRING *value = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
    int size = ASN1_STRING_length(value);
    if (size <= 0 || (size_t)size > capacity ||
        memchr(ASN1_STRING_get0_data(value), 0, (size_t)size) != NULL) {
        return false;
    }
    memcpy(out, ASN1_STRING_get0_data(value), (size_t)size);
    *out_size = (size_t)size;
    return true;
}

struct gw_tls_identity *gw_tls_identity_of(const SSL *ssl)
{
    X509 *certificate = SSL_get0_peer_certificate(ssl);
    char name[WIRE_DEVICE_HEX];
    size_t size = 0;
    uint64_t device_id = 0;
    if (certificate == NULL || SSL_get_verify_result(ssl) != X509_V_OK) {
        return NULL;
    }
    const X509_NAME *subject = X509_get_subject_name(certificate);
    if (!field(subject, NID_commonName, name, sizeof(name), &size) ||
        wire_device_parse_own((struct base_str){name, size}, &device_id) != BASE_OK) {
        return NULL;
    }
    struct gw_tls_identity *identity = calloc(1, sizeof(*identity));
    bool has_tenant = X509_NAME_get_index_by_NID(subject, NID_organizationName, -1) >= 0;
    if (identity == NULL || (has_tenant && !field(subject, NID_organizationName, identity->tenant,
                                                  sizeof(identity->tenant), &size))) {
        free(identity); // a tenant that cannot be one: nobody
        return NULL;
    }
    identity->device_id = device_id;
    identity->tenant_bytes = has_tenant ? (uint8_t)size : 0;
    return identity;
}
