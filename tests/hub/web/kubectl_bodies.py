"""Bodies that kubectl 1.36 sent for a command, with what it prints for `--dry-run=client -o json`, without nulls."""

from typing import Any

META = {"name": "made"}
LABELS = {"app": "made"}
RBAC = "rbac.authorization.k8s.io"
SENT: dict[str, tuple[str, dict[str, Any]]] = {
    "create namespace made": (
        "azhzAAoPCgJ2MRIJTmFtZXNwYWNlEhwKFAoEbWFkZRIAGgAiACoAMgA4AEIAEgAaAgoAGgAiAA==",
        {"kind": "Namespace", "apiVersion": "v1", "metadata": META, "spec": {}, "status": {}},
    ),
    "create configmap made --from-literal=a=b --from-literal=c=": (
        "azhzAAoPCgJ2MRIJQ29uZmlnTWFwEiUKFAoEbWFkZRIAGgAiACoAMgA4AEIAEgYKAWESAWISBQoBYxIAGgAiAA==",
        {"kind": "ConfigMap", "apiVersion": "v1", "metadata": META, "data": {"a": "b", "c": ""}},
    ),
    "create configmap made --from-file=x=binary": (
        "azhzAAoPCgJ2MRIJQ29uZmlnTWFwEiAKFAoEbWFkZRIAGgAiACoAMgA4AEIAGggKAXgSA/8AARoAIgA=",
        {"kind": "ConfigMap", "apiVersion": "v1", "metadata": META, "binaryData": {"x": "/wAB"}},
    ),
    "create secret generic made --from-literal=password=x": (
        "azhzAAoMCgJ2MRIGU2VjcmV0EicKFAoEbWFkZRIAGgAiACoAMgA4AEIAEg0KCHBhc3N3b3JkEgF4GgAaACIA",
        {"kind": "Secret", "apiVersion": "v1", "metadata": META, "data": {"password": "eA=="}},
    ),
    "create serviceaccount made": (
        "azhzAAoUCgJ2MRIOU2VydmljZUFjY291bnQSFgoUCgRtYWRlEgAaACIAKgAyADgAQgAaACIA",
        {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": META},
    ),
    "create role made --verb=get,list --resource=pods --resource-name=one": (
        (
            "azhzAAokChxyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvL3YxEgRSb2xlEjAKFAoEbWFkZRIAGgAiACoAMgA4AEIAEhgKA2dldAoEbGlzdBIA"
            "GgRwb2RzIgNvbmUaACIA"
        ),
        {
            "kind": "Role",
            "apiVersion": f"{RBAC}/v1",
            "metadata": META,
            "rules": [
                {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["one"]},
            ],
        },
    ),
    "create rolebinding made --role=reader --user=jane --serviceaccount=default:robot": (
        (
            "azhzAAorChxyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvL3YxEgtSb2xlQmluZGluZxKQAQoUCgRtYWRlEgAaACIAKgAyADgAQgASKQoEVXNl"
            "chIZcmJhYy5hdXRob3JpemF0aW9uLms4cy5pbxoEamFuZSIAEiIKDlNlcnZpY2VBY2NvdW50EgAaBXJvYm90IgdkZWZhdWx0GikKGXJiYWMu"
            "YXV0aG9yaXphdGlvbi5rOHMuaW8SBFJvbGUaBnJlYWRlchoAIgA="
        ),
        {
            "kind": "RoleBinding",
            "apiVersion": f"{RBAC}/v1",
            "metadata": META,
            "subjects": [
                {"kind": "User", "apiGroup": RBAC, "name": "jane"},
                {"kind": "ServiceAccount", "name": "robot", "namespace": "default"},
            ],
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "reader"},
        },
    ),
    "create clusterrole made --verb=get --resource=nodes": (
        (
            "azhzAAorChxyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvL3YxEgtDbHVzdGVyUm9sZRImChQKBG1hZGUSABoAIgAqADIAOABCABIOCgNnZXQS"
            "ABoFbm9kZXMaACIA"
        ),
        {
            "kind": "ClusterRole",
            "apiVersion": f"{RBAC}/v1",
            "metadata": META,
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]}],
        },
    ),
    "create clusterrole made --aggregation-rule=tier=a": (
        (
            "azhzAAorChxyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvL3YxEgtDbHVzdGVyUm9sZRIlChQKBG1hZGUSABoAIgAqADIAOABCABoNCgsKCQoE"
            "dGllchIBYRoAIgA="
        ),
        {
            "kind": "ClusterRole",
            "apiVersion": f"{RBAC}/v1",
            "metadata": META,
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"tier": "a"}}]},
        },
    ),
    "create clusterrolebinding made --clusterrole=view --group=staff": (
        (
            "azhzAAoyChxyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvL3YxEhJDbHVzdGVyUm9sZUJpbmRpbmcScwoUCgRtYWRlEgAaACIAKgAyADgAQgAS"
            "KwoFR3JvdXASGXJiYWMuYXV0aG9yaXphdGlvbi5rOHMuaW8aBXN0YWZmIgAaLgoZcmJhYy5hdXRob3JpemF0aW9uLms4cy5pbxILQ2x1c3Rl"
            "clJvbGUaBHZpZXcaACIA"
        ),
        {
            "kind": "ClusterRoleBinding",
            "apiVersion": f"{RBAC}/v1",
            "metadata": META,
            "subjects": [{"kind": "Group", "apiGroup": RBAC, "name": "staff"}],
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"},
        },
    ),
    "create deployment made --image=nginx --replicas=2 --port=80": (
        (
            "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50ErwBCiEKBG1hZGUSABoAIgAqADIAOABCAFoLCgNhcHASBG1hZGUSiAEIAhINCgsKA2FwcBIE"
            "bWFkZRptCh0KABIAGgAiACoAMgA4AEIAWgsKA2FwcBIEbWFkZRJMEi4KBW5naW54EgVuZ2lueCoAMgoKABAAGFAiACoAQgBqAHIAgAEAiAEA"
            "kAEAogEAGgAyAEIASgBSAFgAYABoAIIBAIoBAJoBAMIBACICCgAoADgAGgwIABAAGAAgACgAOAAaACIA"
        ),
        {
            "kind": "Deployment",
            "apiVersion": "apps/v1",
            "metadata": {"name": "made", "labels": LABELS},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": LABELS},
                "template": {
                    "metadata": {"labels": LABELS},
                    "spec": {
                        "containers": [
                            {"name": "nginx", "image": "nginx", "ports": [{"containerPort": 80}], "resources": {}},
                        ]
                    },
                },
                "strategy": {},
            },
            "status": {},
        },
    ),
    "create deployment made --image=nginx --replicas=0": (
        (
            "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50Eq8BCiEKBG1hZGUSABoAIgAqADIAOABCAFoLCgNhcHASBG1hZGUSfAgAEg0KCwoDYXBwEgRt"
            "YWRlGmEKHQoAEgAaACIAKgAyADgAQgBaCwoDYXBwEgRtYWRlEkASIgoFbmdpbngSBW5naW54KgBCAGoAcgCAAQCIAQCQAQCiAQAaADIAQgBK"
            "AFIAWABgAGgAggEAigEAmgEAwgEAIgIKACgAOAAaDAgAEAAYACAAKAA4ABoAIgA="
        ),
        {
            "kind": "Deployment",
            "apiVersion": "apps/v1",
            "metadata": {"name": "made", "labels": LABELS},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": LABELS},
                "template": {
                    "metadata": {"labels": LABELS},
                    "spec": {"containers": [{"name": "nginx", "image": "nginx", "resources": {}}]},
                },
                "strategy": {},
            },
            "status": {},
        },
    ),
    "create job made --image=busybox -- sleep 1": (
        (
            "azhzAAoPCghiYXRjaC92MRIDSm9iEogBChQKBG1hZGUSABoAIgAqADIAOABCABJmMmQKEAoAEgAaACIAKgAyADgAQgASUBItCgRtYWRlEgdi"
            "dXN5Ym94GgVzbGVlcBoBMSoAQgBqAHIAgAEAiAEAkAEAogEAGgVOZXZlcjIAQgBKAFIAWABgAGgAggEAigEAmgEAwgEAGgggACgAMAA6ABoA"
            "IgA="
        ),
        {
            "kind": "Job",
            "apiVersion": "batch/v1",
            "metadata": META,
            "spec": {
                "template": {
                    "metadata": {},
                    "spec": {
                        "containers": [
                            {"name": "made", "image": "busybox", "command": ["sleep", "1"], "resources": {}},
                        ],
                        "restartPolicy": "Never",
                    },
                }
            },
            "status": {},
        },
    ),
    "create service clusterip made --tcp=80:8080": (
        (
            "azhzAAoNCgJ2MRIHU2VydmljZRJsCiEKBG1hZGUSABoAIgAqADIAOABCAFoLCgNhcHASBG1hZGUSQwobCgc4MC04MDgwEgNUQ1AYUCIHCAAQ"
            "kD8aACgAEgsKA2FwcBIEbWFkZRoAIglDbHVzdGVySVA6AEIAUgBaAGAAaAAaAgoAGgAiAA=="
        ),
        {
            "kind": "Service",
            "apiVersion": "v1",
            "metadata": {"name": "made", "labels": LABELS},
            "spec": {
                "ports": [{"name": "80-8080", "protocol": "TCP", "port": 80, "targetPort": 8080}],
                "selector": LABELS,
                "type": "ClusterIP",
            },
            "status": {"loadBalancer": {}},
        },
    ),
    "create service nodeport made --tcp=80:http": (
        (
            "azhzAAoNCgJ2MRIHU2VydmljZRJuCiEKBG1hZGUSABoAIgAqADIAOABCAFoLCgNhcHASBG1hZGUSRQoeCgc4MC1odHRwEgNUQ1AYUCIKCAEQ"
            "ABoEaHR0cCgAEgsKA2FwcBIEbWFkZRoAIghOb2RlUG9ydDoAQgBSAFoAYABoABoCCgAaACIA"
        ),
        {
            "kind": "Service",
            "apiVersion": "v1",
            "metadata": {"name": "made", "labels": LABELS},
            "spec": {
                "ports": [{"name": "80-http", "protocol": "TCP", "port": 80, "targetPort": "http"}],
                "selector": LABELS,
                "type": "NodePort",
            },
            "status": {"loadBalancer": {}},
        },
    ),
    # The reviews have no dry run: these are written down from their Go types.
    "create token made --duration=1h --audience=a": (
        (
            "azhzAAooChhhdXRoZW50aWNhdGlvbi5rOHMuaW8vdjESDFRva2VuUmVxdWVzdBIgChAKABIAGgAiACoAMgA4AEIAEgYKAWEgkBwaBAoAEgAa"
            "ACIA"
        ),
        {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {},
            "spec": {"audiences": ["a"], "expirationSeconds": 3600},
            "status": {"token": ""},
        },
    ),
    "auth can-i get pods -n default": (
        (
            "azhzAAoyChdhdXRob3JpemF0aW9uLms4cy5pby92MRIXU2VsZlN1YmplY3RBY2Nlc3NSZXZpZXcSPAoQCgASABoAIgAqADIAOABCABIeChwK"
            "B2RlZmF1bHQSA2dldBoAIgAqBHBvZHMyADoAGggIABIAGgAgABoAIgA="
        ),
        {
            "kind": "SelfSubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {},
            "spec": {"resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}},
            "status": {"allowed": False},
        },
    ),
    "auth whoami": (
        (
            "azhzAAotChhhdXRoZW50aWNhdGlvbi5rOHMuaW8vdjESEVNlbGZTdWJqZWN0UmV2aWV3EhoKEAoAEgAaACIAKgAyADgAQgASBgoECgASABoA"
            "IgA="
        ),
        {
            "kind": "SelfSubjectReview",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {},
            "status": {"userInfo": {}},
        },
    ),
}
