"""TLS: certificates, keys and authorities from files, kept up to date, and who somebody is by his certificate."""
