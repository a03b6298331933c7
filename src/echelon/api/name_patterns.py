"""What names look like, as the patterns that Kubernetes shows in its messages. None is anchored."""

LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
# Of a label: its value, and the part of its key after the slash.
LABEL_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
QUALIFIED_NAME = f"({SUBDOMAIN}/)?({LABEL_NAME})"
