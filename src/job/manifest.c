/* manifest.c - the three files. Strings are in double quotes, as YAML and JSON both read them. */
#include "job/manifest.h"

enum { SAVE_S = 120 }; /* between the signal and the kill: what a save may take */

static const char *const names[] = { "skypilot", "slurm", "kubernetes" };
_Static_assert(sizeof names / sizeof *names == MANIFEST_COUNT, "a name for each");

bool manifest_find(struct str name, enum manifest_kind *out)
{
    for (i32 i = 0; i < MANIFEST_COUNT; i++)
        if (str_eq(name, str_of(names[i]))) return *out = (enum manifest_kind)i, true;
    return false;
}

const struct plan_row *manifest_row(const struct plan_question *q, enum manifest_kind kind,
                                    i64 ranks)
{
    for (i64 i = 0; i < q->result->count; i++) {
        const struct plan_row *r = &q->result->rows[i];
        if (plan_cannot(q, r) || r->side_by_side > 1) continue;
        if (r->machines > 1 && kind != MANIFEST_SLURM)
            continue; /* which alone starts ranks on several */
        if (ranks && r->gpus > 1 && r->gpus != ranks) continue;
        if (r->device->row || kind == MANIFEST_SLURM) return r;
    }
    return NULL;
}

/* --- words --- */

static void add_quoted(struct textbuf *b, struct str s)
{
    textbuf_add(b, STR("\""));
    for (i64 i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        if (c == '"' || c == '\\') textbuf_fmt(b, "\\%c", c);
        else if (c < 32) textbuf_fmt(b, "\\u%04x", c);
        else textbuf_add(b, str_sub(s, i, i + 1));
    }
    textbuf_add(b, STR("\""));
}

static bool is_plain(struct str s)
{
    static const char others[] = "_-./=:,@%+";
    for (i64 i = 0; i < s.len; i++) {
        char c    = s.data[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!word && str_find(str_of(others), c) < 0) return false;
    }
    return s.len > 0;
}

/* As a shell reads one word. */
static void add_word(struct textbuf *b, struct str s)
{
    if (is_plain(s)) {
        textbuf_add(b, s);
        return;
    }
    textbuf_add(b, STR("'"));
    for (i64 i = 0; i < s.len; i++) {
        if (s.data[i] == '\'') textbuf_add(b, STR("'\\''"));
        else textbuf_add(b, str_sub(s, i, i + 1));
    }
    textbuf_add(b, STR("'"));
}

/* launch: several ranks of one machine are started here. Not by mpirun itself, which ends them one second after SIGTERM
 * and exits with 1, as if it would end the same way again. */
static void add_command(struct textbuf *b, const struct manifest *m, bool launch)
{
    if (m->row->gpus > 1 && launch)
        textbuf_fmt(b, "frugal launch --hosts localhost:%lld ", (long long)m->row->gpus);
    else textbuf_add(b, STR("frugal train "));
    add_word(b, m->run_file);
    for (i64 i = 0; i < m->setting_count; i++) {
        textbuf_add(b, STR(" "));
        add_word(b, m->settings[i]);
    }
}

/* Small letters, digits and dashes, a letter or digit at both ends, at most 63: what all three take for a name. */
static struct str label(const struct manifest *m, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    for (i64 i = 0; i < m->name.len && b.len < 63; i++) {
        char c = m->name.data[i];
        if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
        bool fits = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (fits) textbuf_fmt(&b, "%c", c);
        else if (b.len && b.data[b.len - 1] != '-') textbuf_add(&b, STR("-"));
    }
    while (b.len && b.data[b.len - 1] == '-') b.len--;
    return b.len ? textbuf_str(&b) : STR("frugal");
}

static void add_install(struct textbuf *b, const struct manifest *m)
{
    if (m->install.len) textbuf_add(b, m->install);
    else textbuf_add(b, STR("command -v frugal || pip install ./frugal-*.whl"));
}

/* --- skypilot --- */

/* Catalogue and user may mean several: us. SkyPilot takes a region by its whole name alone, and chooses one where it
 * is given none. */
static void add_region(struct textbuf *b, const struct manifest *m)
{
    const struct machine *at = m->row->device->row;
    struct str region        = region_is_whole(at->provider, m->region) ? m->region : at->region;
    if (region_is_whole(at->provider, region)) textbuf_fmt(b, "  region: %.*s\n", STR_ARG(region));
}

static void add_skypilot(struct textbuf *b, const struct manifest *m, struct arena *perm)
{
    const struct machine *at = m->row->device->row;
    textbuf_fmt(b, "# sky jobs launch FILE: a managed job, which is started again on another "
                   "machine when this one is taken away\n");
    textbuf_fmt(b, "name: %.*s\n", STR_ARG(label(m, perm)));
    textbuf_fmt(b, "workdir: .\n");
    textbuf_fmt(b, "resources:\n  cloud: %.*s\n", STR_ARG(at->provider));
    add_region(b, m);
    textbuf_fmt(b, "  instance_type: ");
    add_quoted(b, at->name);
    textbuf_fmt(b, "\n  use_spot: %s\n", m->row->price == PRICE_SPOT ? "true" : "false");
    if (m->image.len) {
        textbuf_fmt(b, "  image_id: ");
        add_quoted(b, str_cat(perm, STR("docker:"), m->image));
        textbuf_add(b, STR("\n"));
    }
    textbuf_fmt(b, "  job_recovery:\n    strategy: FAILOVER\n    recover_on_exit_codes: [3, 4]\n");
    if (!m->image.len) {
        textbuf_fmt(b, "setup: |\n  ");
        add_install(b, m);
        textbuf_add(b, STR("\n"));
        if (m->row->gpus > 1)
            textbuf_add(
                b, STR("  command -v mpirun || (sudo apt-get update && sudo apt-get install -y "
                       "openmpi-bin) # and NCCL: libnccl.so.2\n"));
    }
    textbuf_fmt(b, "run: |\n  ");
    add_command(b, m, true);
    textbuf_add(b, STR("\n"));
}

/* --- slurm --- */

static void add_slurm(struct textbuf *b, const struct manifest *m, struct arena *perm)
{
    struct str name = label(m, perm);
    textbuf_fmt(
        b, "#!/bin/bash\n# sbatch FILE; partition, account, time limit and cores of a rank are the "
           "cluster's: sbatch -p gpu -t 12:00:00 -c 8 FILE\n");
    textbuf_fmt(b,
                "#SBATCH --job-name=%.*s\n#SBATCH --output=%.*s.out\n#SBATCH --open-mode=append\n",
                STR_ARG(name), STR_ARG(name));
    textbuf_fmt(b, "#SBATCH --ntasks=%lld\n", (long long)m->ranks);
    if (m->row->machines > 1) textbuf_fmt(b, "#SBATCH --nodes=%lld\n", (long long)m->row->machines);
    if (m->row->machines > 1 && m->ranks % m->row->machines == 0)
        textbuf_fmt(b, "#SBATCH --ntasks-per-node=%lld\n",
                    (long long)(m->ranks / m->row->machines));
    if (plan_has_gpu(m->row)) textbuf_fmt(b, "#SBATCH --gpus-per-task=1\n");
    if (m->ranks > 1 && plan_has_gpu(m->row)) /* each takes its own; NCCL needs to see the others */
        textbuf_fmt(b, "#SBATCH --gpu-bind=none\n");
    textbuf_fmt(b, "#SBATCH --requeue\n#SBATCH --signal=TERM@%d\n", SAVE_S);
    if (m->install.len) textbuf_fmt(b, "%.*s || exit\n", STR_ARG(m->install));
    textbuf_fmt(b, "# since Slurm 22.05 srun does not take -c from sbatch\n"
                   "[ -z \"$SLURM_CPUS_PER_TASK\" ] || export "
                   "SRUN_CPUS_PER_TASK=\"$SLURM_CPUS_PER_TASK\"\n");
    if (m->ranks > 1)
        textbuf_add(b, STR("# ranks meet by MPI. Where the cluster's default is another: "
                           "SLURM_MPI_TYPE=pmi2 (MPICH) or pmix (Open MPI) sbatch FILE\n"));
    textbuf_fmt(b, "srun --kill-on-bad-exit=1 ");
    add_command(b, m, false);
    textbuf_fmt(b,
                "\ncode=$?\n"
                "# 3: the system failed, 4: interrupted, 137 (of srun): a rank was killed. All "
                "resume from the "
                "newest checkpoint; a preempted job Slurm itself queues again.\n"
                "if [ $code -ge 3 ] && [ \"${SLURM_RESTART_COUNT:-0}\" -lt %d ]; then\n"
                "  scontrol requeue \"$SLURM_JOB_ID\"\n"
                "fi\nexit $code\n",
                MANIFEST_RESTARTS);
}

/* --- kubernetes --- */

/* How a cloud's own Kubernetes marks nodes that may be taken away, and what keeps other pods from them. */
static const struct {
    const char *cloud, *label, *value, *taint;
} spot_nodes[] = {
    { "aws", "eks.amazonaws.com/capacityType", "SPOT", NULL },
    { "gcp", "cloud.google.com/gke-spot", "true", "cloud.google.com/gke-spot" },
    { "azure", "kubernetes.azure.com/scalesetpriority", "spot",
      "kubernetes.azure.com/scalesetpriority" },
};

static void add_node(struct textbuf *b, const struct manifest *m)
{
    const struct machine *at = m->row->device->row;
    textbuf_fmt(b, "      nodeSelector:\n        node.kubernetes.io/instance-type: ");
    add_quoted(b, at->name);
    textbuf_add(b, STR("\n"));
    for (i64 i = 0; i < COUNT_OF(spot_nodes) && m->row->price == PRICE_SPOT; i++) {
        if (!str_eq(at->provider, str_of(spot_nodes[i].cloud))) continue;
        textbuf_fmt(b, "        %s: \"%s\"\n", spot_nodes[i].label, spot_nodes[i].value);
        if (spot_nodes[i].taint)
            textbuf_fmt(b,
                        "      tolerations:\n      - {key: %s, operator: Equal, value: \"%s\", "
                        "effect: NoSchedule}\n",
                        spot_nodes[i].taint, spot_nodes[i].value);
    }
}

/* The run file, as a block of text that stands `by` columns in. */
static void add_block(struct textbuf *b, struct str text, int by)
{
    struct str line;
    while (str_cut(&text, '\n', &line))
        textbuf_fmt(b, "%*s%.*s\n", line.len ? by : 0, "", STR_ARG(line));
}

static void add_kubernetes(struct textbuf *b, const struct manifest *m, struct arena *perm)
{
    struct str name = label(m, perm), file = str_cat(perm, name, STR(".yaml"));
    struct str how = STR("\"train\"");
    if (m->row->gpus > 1) /* as add_command */
        how = str_fmt(perm, "\"launch\", \"--hosts\", \"localhost:%lld\"", (long long)m->row->gpus);
    textbuf_fmt(b, "# kubectl apply -f FILE; data on the disk of this machine is to be in the "
                   "image, or on a volume of /runs\n");
    textbuf_fmt(b, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %.*s\ndata:\n  %.*s: |\n",
                STR_ARG(name), STR_ARG(file));
    add_block(b, m->run_text, 4);
    textbuf_fmt(b,
                "---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: %.*s\nspec:\n  "
                "backoffLimit: %d\n",
                STR_ARG(name), MANIFEST_RESTARTS);
    textbuf_fmt(b, "  podFailurePolicy:\n    rules:\n"
                   "    - action: FailJob # would end the same way again\n"
                   "      onExitCodes: {containerName: frugal, operator: In, values: [1, 2]}\n"
                   "    - action: Ignore # its node is taken away: that is no failure of the run\n"
                   "      onPodConditions: [{type: DisruptionTarget, status: \"True\"}]\n");
    textbuf_fmt(b,
                "  template:\n    spec:\n      restartPolicy: Never\n      "
                "terminationGracePeriodSeconds: %d\n",
                SAVE_S);
    add_node(b, m);
    textbuf_fmt(b, "      containers:\n      - name: frugal\n        image: ");
    add_quoted(b, m->image);
    textbuf_fmt(b,
                "\n        workingDir: /runs\n        command: [\"frugal\"]\n        args: [%.*s, "
                "\"/runs/%.*s\"",
                STR_ARG(how), STR_ARG(file));
    for (i64 i = 0; i < m->setting_count; i++) {
        textbuf_add(b, STR(", "));
        add_quoted(b, m->settings[i]);
    }
    textbuf_fmt(b, "]\n");
    if (m->row->device->row->gpu.len)
        textbuf_fmt(b,
                    "        resources:\n          limits:\n            nvidia.com/gpu: \"%lld\"\n",
                    (long long)m->row->gpus);
    textbuf_fmt(
        b,
        "        volumeMounts:\n        - {name: run-file, mountPath: /runs/%.*s, subPath: %.*s}\n",
        STR_ARG(file), STR_ARG(file));
    textbuf_fmt(b, "      volumes:\n      - name: run-file\n        configMap: {name: %.*s}\n",
                STR_ARG(name));
}

struct str manifest_text(const struct manifest *m, enum manifest_kind kind, struct arena *perm)
{
    struct arena   parts = arena_part(perm, 1 << 20);
    struct textbuf b     = textbuf_new(perm);
    if (kind == MANIFEST_SKYPILOT) add_skypilot(&b, m, &parts);
    if (kind == MANIFEST_SLURM) add_slurm(&b, m, &parts);
    if (kind == MANIFEST_KUBERNETES) add_kubernetes(&b, m, &parts);
    return textbuf_str(&b);
}
