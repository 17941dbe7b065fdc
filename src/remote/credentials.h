/* credentials.h - who we are to an object store, asked in the order of AWS's SDKs:
 *
 *     s3://   environment, web identity (IRSA), profile, container (ECS, EKS Pod Identity), IMDSv2
 *     gs://   HMAC keys (environment, profile), the machine's own token
 *
 * The first that is configured is the one: if it fails, its sentence is the answer. What expires is
 * renewed five minutes ahead. No secret is ever part of a sentence. */
#ifndef REMOTE_CREDENTIALS_H
#define REMOTE_CREDENTIALS_H
#include "remote/web.h"

struct credentials {
    struct str key_id, secret;
    struct str token;  /* of a session; empty: none */
    struct str bearer; /* Google's; then the others are empty */
};

struct credential_settings {
    enum sigv4_kind kind;
    struct str      region;  /* whose token service is asked */
    bool            ask_aws; /* the machine's metadata service may be asked: it is that cloud's, */
    bool            ask_gcp; /* or the user says so */
};

struct credential_chain; /* any thread may use it */
struct credential_chain *credential_chain_new(struct os *os, struct web *web,
                                              const struct credential_settings *c,
                                              struct arena                     *perm);
/* USAGE: none is configured. */
enum status credentials_get(struct credential_chain *c, struct arena *perm, struct credentials *out,
                            struct err *err);
/* The store says that these have expired: the next get asks anew. */
void credentials_expire(struct credential_chain *c, const struct credentials *used);
/* Does the text give one of the secrets away? */
bool credentials_in(const struct credentials *c, struct str text);

/* A setting of the profile in use, from ~/.aws/credentials or ~/.aws/config; data NULL: none. */
struct str profile_value(struct os *os, struct arena *perm, struct str key);
/* The value of a key in a section of such a file's text; data NULL: none. */
struct str ini_value(struct str text, struct str section, struct str key);
bool       ini_has(struct str text, struct str section);

#endif
