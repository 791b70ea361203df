"""The services that ``pratique serve`` runs, one file each."""
