"""The engine, which emulates AWS on this machine, with its checks of identities, permissions and limits."""
